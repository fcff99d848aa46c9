package supervise

import (
	"context"
	"errors"
	"testing"
	"time"

	"notifylab/internal/event"
)

// long is longer than any test may take, and short enough that one that fails
// ends.
const long = 3 * time.Minute

// quick is a policy under which nothing has to be waited for but what a test
// is about.
var quick = Policy{
	Min:       time.Millisecond,
	Max:       4 * time.Millisecond,
	Healthy:   long,
	Grace:     long,
	WaitDelay: long,
}

// A bench is a supervisor with the history of what it said.
type bench struct {
	*Supervisor
	t       *testing.T
	ctx     context.Context
	history *event.History
}

// newBench returns a bench that is stopped, the hard way, with the test.
func newBench(t *testing.T, c Config) bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	b := bench{t: t, ctx: ctx, history: new(event.History)}
	c.Sink = b.history.Add
	b.Supervisor = New(c)
	t.Cleanup(func() {
		cancel()
		b.Kill()
		b.Stop()
	})
	return b
}

func (b bench) start(c Child) *Process {
	b.t.Helper()
	p, err := b.Start(c)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b bench) await(match func(event.Event) bool) event.Event {
	b.t.Helper()
	return b.awaitFrom(0, match)
}

func (b bench) awaitFrom(n int, match func(event.Event) bool) event.Event {
	b.t.Helper()
	e, err := b.history.AwaitFrom(b.ctx, n, match)
	if err != nil {
		for _, e := range b.history.All() {
			b.t.Logf("%s", event.Encode(e))
		}
		b.t.Fatal(err)
	}
	return e
}

func (b bench) awaitExit(p *Process) {
	b.t.Helper()
	if err := p.AwaitExit(b.ctx); err != nil {
		b.t.Fatal(err)
	}
}

// all returns the events that match.
func (b bench) all(match func(event.Event) bool) []event.Event {
	var found []event.Event
	for _, e := range b.history.All() {
		if match(e) {
			found = append(found, e)
		}
	}
	return found
}

// awaitGone waits until pid is dead. Nobody tells of a process that is not our
// child.
func (b bench) awaitGone(pid int) {
	b.t.Helper()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		if _, err := Stopped(pid); errors.Is(err, ErrNotRunning) {
			return
		}
		select {
		case <-tick.C:
		case <-b.ctx.Done():
			b.t.Fatalf("pid %d still lives", pid)
		}
	}
}
