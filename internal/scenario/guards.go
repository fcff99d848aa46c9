package scenario

import (
	"notifylab/internal/idem"
	"notifylab/internal/worker"
)

// A Guard is a step of the protocol that can be taken away from the workers, to see
// that the matrix would notice.
type Guard struct {
	Name  string   // as the worker's flag has it
	Is    string   // what it is
	Shows []string // the cells that must turn red without it
}

// Guards lists them. The cells are those in which nothing else stands between the
// missing guard and a wrong outcome.
func Guards() []Guard {
	return []Guard{
		{string(idem.NX), "the claim is written only where there is none", []string{
			"record/mid-send/kill", "record/after-send/kill", "record/before-ack/kill",
			"record/mid-send/stop", "record/after-send/stop", "record/before-ack/stop",
		}},
		// After a stop alone nothing is seen: a worker that wakes without its session
		// makes no second claim. So there is a copy, and the session lives.
		{string(idem.CompareAndSet), "a record that is somebody else's is left to them", []string{
			"lease/after-claim/twins", "lease/mid-send/twins",
		}},
		{string(worker.Clock), "no send starts, and none goes on, without enough of the lease", []string{
			"lease/after-claim/stop", "lease/before-send/stop",
		}},
		{string(worker.Confirm), "a copy is confirmed before its original is acked", []string{
			"lease/before-copy/kill",
		}},
	}
}

// Cells returns the cells that must turn red.
func (g Guard) Cells() []Cell {
	var cells []Cell
	for _, name := range g.Shows {
		if c, err := FindCell(name); err == nil { // a test holds that there is each
			cells = append(cells, c)
		}
	}
	return cells
}

// Unseen returns the results that came out as if the guard were there. The zero
// Guard is missed by none.
func (g Guard) Unseen(results []Result) []Result {
	var unseen []Result
	for _, r := range results {
		if g.Name != "" && r.Status != Inconclusive && !r.Red() {
			unseen = append(unseen, r)
		}
	}
	return unseen
}
