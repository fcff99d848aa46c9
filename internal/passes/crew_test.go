package passes

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"notifylab/internal/event"
	"notifylab/internal/supervise"
)

// A crew is reader processes on a log, and all that they said.
type crew struct {
	*place
	base       spec
	supervisor *supervise.Supervisor
	history    event.History
}

// newCrew returns a crew of nobody. Whoever is silent for ttl counts as dead.
func newCrew(t *testing.T, partitions int, ttl time.Duration) *crew {
	t.Helper()
	c := &crew{place: newPlace(t, partitions)}
	c.base = spec{AMQP: c.amqp, Redis: c.redis, Log: c.log, Group: "notify", TTL: ttl, Beat: 50 * time.Millisecond}
	c.supervisor = supervise.New(supervise.Config{Sink: c.history.Add})
	t.Cleanup(func() {
		c.stop()
		if t.Failed() {
			var b strings.Builder
			for _, e := range c.history.All() {
				b.Write(event.Encode(e))
			}
			t.Log("the history:\n" + b.String())
		}
	})
	return c
}

// start starts a reader of one life.
func (c *crew) start(name string, change ...func(*spec)) *supervise.Process {
	c.t.Helper()
	s := c.base
	s.Name = name
	for _, f := range change {
		f(&s)
	}
	text, err := json.Marshal(s)
	if err != nil {
		c.t.Fatal(err)
	}
	p, err := c.supervisor.Start(supervise.Child{
		Name: name, Argv: []string{os.Args[0]}, Once: true,
		Env: append(os.Environ(), readerSpec+"="+string(text), "GORACE=atexit_sleep_ms=0"),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

// stop tells all to stop. By then all that they said is in the history.
func (c *crew) stop() {
	c.t.Helper()
	if err := c.supervisor.Stop(); err != nil {
		c.t.Error(err)
	}
}

// await waits for an event, past or future.
func (c *crew) await(what string, match func(event.Event) bool) event.Event {
	c.t.Helper()
	return c.awaitFrom(0, what, match)
}

func (c *crew) awaitFrom(n int, what string, match func(event.Event) bool) event.Event {
	c.t.Helper()
	e, err := c.history.AwaitFrom(soon(c.t), n, match)
	if err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
	return e
}

// awaitAssigned waits until each of these members of a group, and nobody else, knows
// its partitions in one and the same generation, and returns that and what each has.
// What was said before the n-th event does not count.
func (c *crew) awaitAssigned(n int, group string, members ...string) (generation int64, owned map[string][]int) {
	c.t.Helper()
	assigned := map[int64]map[string][]int{}
	c.awaitFrom(n, fmt.Sprintf("%v are not the members of %s", members, group), func(e event.Event) bool {
		if e.Kind != event.Assigned || e.Group != group || !slices.Equal(e.Members, members) {
			return false
		}
		if assigned[e.Generation] == nil {
			assigned[e.Generation] = map[string][]int{}
		}
		generation, owned = e.Generation, assigned[e.Generation]
		owned[e.Source] = e.Partitions
		return len(owned) == len(members)
	})
	return generation, owned
}

// awaitMembers waits until a group has these members and no others, as Redis has it.
func (c *crew) awaitMembers(group string, members ...string) {
	c.t.Helper()
	g := c.group(group)
	for ctx := soon(c.t); ; {
		s, err := g.Look(ctx)
		if err == nil && slices.Equal(s.Names(), members) {
			return
		}
		if !pause(ctx, 10*time.Millisecond) {
			c.t.Fatalf("the members of %s are %v, want %v, %v", group, s.Names(), members, err)
		}
	}
}

// awaitDone waits until a group's cursors are at the end of everything, as it is in
// the log by now, and returns what is in it.
func (c *crew) awaitDone(group string) [][]string {
	c.t.Helper()
	contents := c.contents()
	g := c.group(group)
	for ctx := soon(c.t); ; {
		s, err := g.Look(ctx)
		behind := ""
		for p, in := range contents {
			if want := int64(len(in)) - 1; err == nil && s.Cursor(p) != want {
				behind += fmt.Sprintf(" partition %d at %d of %d", p, s.Cursor(p), want)
			}
		}
		if err == nil && behind == "" {
			return contents
		}
		if !pause(ctx, 10*time.Millisecond) {
			c.t.Fatalf("%s is not done: %s %v", group, behind, err)
		}
	}
}

// judge stops everyone and fails the test if anything is wrong in what they said; it
// returns all of it.
func (c *crew) judge() []event.Event {
	c.t.Helper()
	c.stop()
	events := c.history.All()
	for _, wrong := range judge(events) {
		c.t.Error(wrong)
	}
	return events
}

// kill sends SIGKILL and returns when the process is gone and its words are in.
func (c *crew) kill(p *supervise.Process) {
	c.t.Helper()
	if err := p.Signal(unix.SIGKILL); err != nil {
		c.t.Fatal(err)
	}
	c.gone(p)
}

func (c *crew) gone(p *supervise.Process) {
	c.t.Helper()
	if err := p.AwaitExit(soon(c.t)); err != nil {
		c.t.Fatal(err)
	}
}

// dismiss tells one to stop by its own will.
func (c *crew) dismiss(p *supervise.Process) {
	c.t.Helper()
	if err := p.Stop(soon(c.t)); err != nil {
		c.t.Fatal(err)
	}
}

func is(kind event.Kind, source string) func(event.Event) bool {
	return func(e event.Event) bool { return e.Kind == kind && e.Source == source }
}

func about(kind event.Kind, id string) func(event.Event) bool {
	return func(e event.Event) bool { return e.Kind == kind && e.ID == id }
}

func only(events []event.Event, match func(event.Event) bool) (some []event.Event) {
	for _, e := range events {
		if match(e) {
			some = append(some, e)
		}
	}
	return some
}

// kinds is what was said, in a row.
func kinds(events []event.Event) string {
	var words []string
	for _, e := range events {
		words = append(words, string(e.Kind))
	}
	return strings.Join(words, " ")
}
