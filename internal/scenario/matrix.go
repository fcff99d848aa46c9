package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"notifylab/internal/event"
	"notifylab/internal/worker"
)

// A Setting is settings that have a name.
type Setting struct {
	Name string
	event.Settings
}

// NamedSettings lists the settings that have a name: the rows of the matrix, and what
// can soak.
func NamedSettings() []Setting {
	return []Setting{
		{"ack-early", event.Settings{Ack: "early"}},
		{"none", event.Settings{}},
		{"record", event.Settings{Idempotency: true}},
		{"lease", event.Settings{Idempotency: true, ClaimLease: true}},
		{"lease+key", event.Settings{Idempotency: true, ClaimLease: true, ProviderKey: true}},
		{"key", event.Settings{ProviderKey: true}},
	}
}

// SettingsNamed returns those of that name, all off if there are none.
func SettingsNamed(name string) event.Settings {
	for _, s := range NamedSettings() {
		if s.Name == name {
			return s.Settings
		}
	}
	return event.Settings{}
}

// A Cell is one place of the matrix: one message, and one thing that is done to its
// worker.
type Cell struct {
	Setting Setting
	Point   worker.Point
	Fault   Fault
	Want    Prediction
}

// String returns the form that [FindCell] reads: SETTING/POINT/FAULT.
func (c Cell) String() string { return fmt.Sprintf("%s/%s/%s", c.Setting.Name, c.Point, c.Fault) }

// Cells returns every place that there is, row by row. The places around a copy
// are shown under a lease alone: the settings change nothing about them.
func Cells() []Cell {
	var all []Cell
	for _, s := range NamedSettings() {
		for _, f := range Faults() {
			for _, p := range worker.Points() {
				if want, err := Predict(s.Settings, p, f); err == nil && (s.Name == "lease" || !aroundCopy(p)) {
					all = append(all, Cell{s, p, f, want})
				}
			}
		}
	}
	return all
}

// ErrUnknownCell says that a word of SETTING/POINT/FAULT is not known.
var ErrUnknownCell = errors.New("not SETTING/POINT/FAULT as in lease/after-claim/stop")

// FindCell reads SETTING/POINT/FAULT. Its error is [ErrUnknownCell], or says why
// nothing ever comes to that place.
func FindCell(text string) (Cell, error) {
	setting, rest, _ := strings.Cut(text, "/")
	point, fault, _ := strings.Cut(rest, "/")
	for _, c := range Cells() {
		if c.String() == text {
			return c, nil
		}
	}
	known := slices.Contains(worker.Points(), worker.Point(point)) && slices.Contains(Faults(), Fault(fault))
	for _, s := range NamedSettings() {
		if s.Name != setting || !known {
			continue
		}
		if _, err := Predict(s.Settings, worker.Point(point), Fault(fault)); err != nil {
			return Cell{}, fmt.Errorf("no cell %q: %w", text, err)
		}
		return Cell{}, fmt.Errorf("no cell %q: settings change nothing about copies, so there is lease/%s/%s", text, point, fault)
	}
	return Cell{}, fmt.Errorf("no cell %q: %w", text, ErrUnknownCell)
}

// Scenario returns the cell as a scenario, to be run as one.
func (c Cell) Scenario() Scenario {
	s := Scenario{Name: c.String(), Title: string(c.Fault) + " " + string(c.Point), Outcome: c.Want.Outcome, Settings: c.Setting.Settings}
	switch c.Fault {
	case Kill:
		return crashAt(c.Point, s)
	case Stop:
		return stopAt(c.Point, s)
	}
	return twinsAt(c.Point, s)
}

// A Result is what came out in a cell.
type Result struct {
	Cell
	Verdict
	InHand int // what its worker had in hand, the victim included
}

// Got is what came out, as the table has it.
func (r Result) Got() string {
	if r.Status == Inconclusive {
		return "?"
	}
	if r.Outcome == Parked {
		return string(Parked)
	}
	return cellText(r.Accepted, r.Outcome, r.Cell.Want.Late && r.Outcome == Once)
}

// Red says that the ledger and the queues have it otherwise than predicted,
// whatever the workers said.
func (r Result) Red() bool {
	return r.Status == NotHeld && (!r.Cell.Want.allows(r.Accepted) || r.Outcome != r.Verdict.Want)
}

// Sent is how often the workers said that they had sent it.
func (r Result) Sent() int {
	n := 0
	for _, e := range r.Events {
		if e.Kind == event.Sent && e.ID == r.Victim {
			n++
		}
	}
	return n
}

// Agree says whether that is what the ledger says, too.
func (r Result) Agree() bool { return r.Status == Inconclusive || r.Sent() == r.Accepted }

// MarshalJSON writes the result as the object that a run of the matrix has for
// each cell: nothing left out.
func (r Result) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Kind      string       `json:"kind"`
		Setting   string       `json:"setting"`
		Point     worker.Point `json:"point"`
		Fault     Fault        `json:"fault"`
		Accepted  int          `json:"accepted"`
		Want      string       `json:"want"`
		Got       string       `json:"got"`
		OK        bool         `json:"ok"`
		Status    Status       `json:"status"`
		Sent      int          `json:"sent"` // by the workers' own lines
		Agree     bool         `json:"agree"`
		IDs       []string     `json:"ids"` // that what is not ok is about
		InHand    int          `json:"concurrency"`
		Namespace string       `json:"namespace"`
		ElapsedMS int64        `json:"elapsed_ms"`
	}{"cell", r.Setting.Name, r.Point, r.Fault, r.Accepted, r.Cell.Want.String(), r.Got(), r.Status == Held, r.Status,
		r.Sent(), r.Agree(), r.Wrong(), r.InHand, r.Namespace, r.ElapsedMS})
}

// Wrong returns the ids that the findings which are not ok name, each once.
func (r Result) Wrong() []string {
	ids := []string{}
	for _, f := range r.Findings {
		if !f.OK {
			ids = append(ids, f.IDs...)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// AtOnce is how many cells are played at the same time: most of the time they
// wait.
const AtOnce = 8

// PlayCells plays cells, [AtOnce] at the same time, and calls done with each
// result, one at a time. config says where one is played: the settings are the
// cell's own. An error means that one could not be played; then the others are
// ended, and when PlayCells returns nothing that it started runs.
func PlayCells(ctx context.Context, cells []Cell, config func(Cell) Config, done func(Result)) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(AtOnce)
	var mu sync.Mutex
	for _, c := range cells {
		g.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			cfg := config(c)
			cfg.Settings = c.Setting.Settings
			v, err := c.Scenario().Run(ctx, cfg)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			done(Result{c, v, cfg.concurrency()})
			return nil
		})
	}
	return g.Wait()
}
