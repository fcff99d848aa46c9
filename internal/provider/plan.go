package provider

import (
	"slices"
	"sync"

	"notifylab/internal/notify"
)

// A plan is faults at work: fixed lists, and the gates' state.
type plan struct {
	Faults
	gates []*gate
}

type gate struct {
	Gate
	once sync.Once
	open chan struct{} // closed: it is
}

func (g *gate) unlock() { g.once.Do(func() { close(g.open) }) }

// newPlan takes over the gates of the plan before that are still wanted, with
// the calls that they hold, and opens the others.
func newPlan(f Faults, before *plan) *plan {
	p := &plan{Faults: Faults{
		// Copies: the caller may go on changing the slices it made.
		Hang:       slices.Clone(f.Hang),
		Gate:       slices.Clone(f.Gate),
		Delay:      slices.Clone(f.Delay),
		Refuse:     slices.Clone(f.Refuse),
		AcceptHang: slices.Clone(f.AcceptHang),
	}}
	old := map[Gate]*gate{}
	if before != nil {
		for _, g := range before.gates {
			old[g.Gate] = g
		}
	}
	for _, want := range p.Gate {
		g := old[want]
		if g == nil {
			g = &gate{Gate: want, open: make(chan struct{})}
		}
		delete(old, want)
		p.gates = append(p.gates, g)
	}
	for _, g := range old {
		g.unlock()
	}
	return p
}

// arrived opens the gates that wait for id.
func (p *plan) arrived(id string) {
	for _, g := range p.gates {
		if g.Until == id {
			g.unlock()
		}
	}
}

// holding returns the gates that are closed for id.
func (p *plan) holding(id string) []*gate {
	var closed []*gate
	for _, g := range p.gates {
		if g.Hold != id {
			continue
		}
		select {
		case <-g.open:
		default:
			closed = append(closed, g)
		}
	}
	return closed
}

// lastFor returns the last fault of a list that is for the call.
func lastFor[F interface {
	matches(notify.Notification, notify.Channel) bool
}](faults []F, n notify.Notification, c notify.Channel) (F, bool) {
	for _, f := range slices.Backward(faults) {
		if f.matches(n, c) {
			return f, true
		}
	}
	var none F
	return none, false
}
