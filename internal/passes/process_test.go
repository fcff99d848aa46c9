package passes

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"notifylab/internal/event"
	"notifylab/internal/supervise"
)

// ttl is how long the tests' readers may be silent. Longer than a busy machine takes
// to let them speak: who is put out by mistake does no harm, but no test is about it.
const ttl = 2 * time.Second

// ofPartition returns the first of some posts that goes into one of these partitions.
func (c *crew) ofPartition(all []Post, partitions []int) *Post {
	c.t.Helper()
	for i := range all {
		if slices.Contains(partitions, c.log.Partition(all[i].Pass)) {
			return &all[i]
		}
	}
	c.t.Fatalf("none of the events is in %v", partitions)
	return nil
}

// The table in doc.go: what is left behind when a reader dies in the middle of an
// event, and how often it is handled by the time that all is done.
func TestMember_dies_at(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		point       Point
		commitFirst bool
		handled     int
		said        string // of the event, by the one that died
	}{
		{AfterRead, false, 1, "read crash"},
		{BeforeCommit, false, 2, "read sent crash"},
		{AfterCommit, false, 1, "read sent committed crash"},
		{AfterRead, true, 1, "read crash"},
		{BeforeCommit, true, 1, "read crash"},
		{AfterCommit, true, 0, "read committed crash"},
	} {
		t.Run(fmt.Sprintf("%s, commit first %v", tt.point, tt.commitFirst), func(t *testing.T) {
			t.Parallel()
			c := newCrew(t, 4, ttl)
			c.base.CommitFirst = tt.commitFirst
			c1, _ := c.start("c1"), c.start("c2")
			generation, owned := c.awaitAssigned(0, "notify", "c1", "c2")
			all := posts(0, 40, 20)
			victim := c.ofPartition(all[20:], owned["c1"]) // not the first of its partition
			victim.Crash = string(tt.point)
			c.publish(all...)
			c.gone(c1)
			died := time.Now()
			c.await("c2 does not take over", func(e event.Event) bool {
				return e.Kind == event.Assigned && e.Source == "c2" && len(e.Partitions) == 4 && e.Generation > generation
			})
			t.Logf("taken over after %v", time.Since(died).Round(time.Millisecond))
			contents := c.awaitDone("notify")
			events := c.judge()

			want := []string(nil)
			if tt.handled != 1 {
				want = []string{fmt.Sprint(victim.ID, " ×", tt.handled)}
			}
			same(t, "not handled just once", otherwise(done(events, "notify", contents)), want)
			same(t, "what c1 said of it", kinds(only(events, func(e event.Event) bool { return e.Source == "c1" && e.ID == victim.ID })), tt.said)
			// The survivor resumes at the last committed offset + 1.
			for _, p := range owned["c1"] {
				cursor, first := int64(-1), int64(-1)
				for _, e := range events {
					if e.Position == nil || e.Partition != p {
						continue
					}
					switch {
					case e.Kind == event.Committed && e.Source == "c1":
						cursor = e.Offset
					case e.Kind == event.Read && e.Source == "c2" && first < 0:
						first = e.Offset
					}
				}
				if first >= 0 && first != cursor+1 {
					t.Errorf("partition %d was committed up to %d and resumed at %d", p, cursor, first)
				}
			}
		})
	}
}

// Killed from outside, wherever it is, again and again.
func TestMember_is_killed_anywhere(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 4, ttl)
	c.start("c1")
	slow := func(s *spec) { s.Slow = 2 * time.Millisecond }
	for round := range 5 {
		n := c.history.Len()
		p := c.start("c2", slow)
		c.awaitAssigned(n, "notify", "c1", "c2")
		n = c.history.Len()
		c.publish(posts(round*40, 40, 40)...)
		c.awaitFrom(n, "c2 does nothing", is(event.Sent, "c2"))
		c.kill(p)
	}
	contents := c.awaitDone("notify")
	events := c.judge()
	for id, n := range done(events, "notify", contents) {
		if n == 0 {
			t.Errorf("%s is lost", id)
		}
		if n > 6 {
			t.Errorf("%s was handled %d times", id, n)
		}
	}
	if again := otherwise(done(events, "notify", contents)); len(again) > 20 {
		t.Errorf("handled more than once: %v, with 5 kills and one in hand each time", again)
	}
}

// A stopped reader wakes when others have its partitions and are further on.
func TestMember_is_stopped_and_wakes(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 4, ttl)
	c1, _ := c.start("c1"), c.start("c2")
	first, owned := c.awaitAssigned(0, "notify", "c1", "c2")
	all := posts(0, 40, 20)
	victim := c.ofPartition(all[10:], owned["c1"])
	victim.Crash = string(BeforeCommit) + ",stop"
	c.publish(all...)
	c.await("it does not stop", about(event.Stopped, victim.ID))
	stopped := c.history.Len()
	if err := supervise.AwaitStopped(soon(t), c1.Pid()); err != nil {
		t.Fatal(err)
	}
	second, _ := c.awaitAssigned(stopped, "notify", "c2")
	c.awaitDone("notify")
	before := ok[State](t)(c.group("notify").Look(soon(t)))
	n := c.history.Len()
	if err := c1.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	refused := c.await("no commit is refused", about(event.CommitRefused, victim.ID))
	third, _ := c.awaitAssigned(n, "notify", "c1", "c2")
	same(t, "cursors after it woke", ok[State](t)(c.group("notify").Look(soon(t))).Cursors, before.Cursors)
	if !(first < second && second < third) || refused.Generation != first {
		t.Errorf("generations %d, %d, %d, refused in %d", first, second, third, refused.Generation)
	}
	// It is one of the group again.
	more := posts(40, 40, 20)
	c.publish(more...)
	contents := c.awaitDone("notify")
	events := c.judge()
	same(t, "not handled just once", otherwise(done(events, "notify", contents)), []string{victim.ID + " ×2"})
	same(t, "what c1 said of it", kinds(only(events, func(e event.Event) bool { return e.Source == "c1" && e.ID == victim.ID })),
		"read sent stopped woke commit_refused")
	same(t, "what c1 said of the group", kinds(only(events[stopped:], func(e event.Event) bool { return e.Source == "c1" && e.Position == nil })),
		"rebalanced joined assigned left")
	if len(only(events, func(e event.Event) bool { return e.Kind == event.Read && e.Source == "c1" && e.Generation == third })) == 0 {
		t.Error("it reads nothing after it woke")
	}
}

// Stopped from outside while it handles, or waits: the handler's effect comes twice,
// the cursor never goes back.
func TestMember_is_stopped_anywhere(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 2, time.Second) // c1 waits for it in each round
	c.start("c1", func(s *spec) { s.TTL = ttl })
	c2 := c.start("c2", func(s *spec) { s.Slow = 2 * time.Millisecond })
	c.awaitAssigned(0, "notify", "c1", "c2")
	for round := range 4 {
		n := c.history.Len()
		c.publish(posts(round*40, 40, 40)...)
		c.awaitFrom(n, "c2 does nothing", is(event.Sent, "c2"))
		if err := c2.Signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if err := supervise.AwaitStopped(soon(t), c2.Pid()); err != nil {
			t.Fatal(err)
		}
		c.awaitMembers("notify", "c1") // no word of that comes if c2 was put out by mistake before it stopped
		c.awaitDone("notify")
		cursors := ok[State](t)(c.group("notify").Look(soon(t))).Cursors
		n = c.history.Len()
		if err := c2.Signal(unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		c.awaitFrom(n, "c2 does not come back", func(e event.Event) bool {
			return e.Kind == event.Assigned && e.Source == "c2" && len(e.Members) == 2
		})
		same(t, "cursors after it woke", ok[State](t)(c.group("notify").Look(soon(t))).Cursors, cursors)
	}
	contents := c.awaitDone("notify")
	for id, n := range done(c.judge(), "notify", contents) {
		if n == 0 {
			t.Errorf("%s is lost", id)
		}
	}
}

// One after the other joins, more than there are partitions, and leaves again. A second
// group reads all of it meanwhile, a third one comes late.
func TestMembers_come_and_go(t *testing.T) {
	t.Parallel()
	const partitions, most = 4, 6
	c := newCrew(t, partitions, 10*time.Second)
	inDelete := func(s *spec) { s.Group = "delete" }
	c.start("d1", inDelete)
	c.awaitAssigned(0, "delete", "d1")

	var names []string
	var crew []*supervise.Process
	next := 0
	check := func(n int) {
		t.Helper()
		generation, owned := c.awaitAssigned(n, "notify", names...)
		idle := 0
		for _, p := range owned {
			if len(p) == 0 {
				idle++
			}
		}
		if want := max(0, len(names)-partitions); idle != want {
			t.Errorf("generation %d, %v: %d are idle, want %d", generation, owned, idle, want)
		}
		n = c.history.Len()
		all := posts(next, 16, 16) // of passes in every partition
		next += 16
		c.publish(all...)
		// Seen from the reads: who has a partition reads it, and nobody else does.
		left, readers := ids(all), map[string]bool{}
		c.awaitFrom(n, "not all is done", func(e event.Event) bool {
			if e.Group != "notify" || e.Position == nil {
				return false
			}
			if e.Kind == event.Read {
				readers[e.Source] = true
				if !slices.Contains(owned[e.Source], e.Partition) || e.Generation != generation {
					t.Errorf("%s reads partition %d in generation %d, it has %v in %d", e.Source, e.Partition, e.Generation, owned[e.Source], generation)
				}
			}
			left = slices.DeleteFunc(left, func(id string) bool { return e.Kind == event.Committed && e.ID == id })
			return len(left) == 0
		})
		if want := min(len(names), partitions); len(readers) != want {
			t.Errorf("generation %d: %v read, want %d", generation, readers, want)
		}
	}
	for i := range most {
		names = append(names, fmt.Sprint("c", i+1))
		n := c.history.Len()
		crew = append(crew, c.start(names[i]))
		check(n)
	}
	for len(names) > 1 {
		names = names[1:]
		n := c.history.Len()
		c.dismiss(crew[0])
		crew = crew[1:]
		check(n)
	}
	c.start("l1", func(s *spec) { s.Group = "late" })
	for _, group := range []string{"notify", "delete", "late"} {
		c.awaitDone(group)
	}
	contents := c.contents()
	rows := ok[[]Row](t)(Status(soon(t), c.client, c.conn, c.log.Namespace, 10*time.Second))
	events := c.judge()
	for _, group := range []string{"notify", "delete", "late"} {
		same(t, "not handled just once by "+group, otherwise(done(events, group, contents)), []string(nil))
	}
	var all []string
	for _, in := range contents {
		all = append(all, in...)
	}
	slices.Sort(all)
	same(t, "the log, after all that", all, ids(posts(0, next, 16)))
	same(t, "the log, read once more", c.contents(), contents)
	var want []Row
	for _, of := range []struct {
		group, owner string
		generation   int64
	}{{"delete", "d1", 1}, {"late", "l1", 1}, {"notify", "c6", most + most - 1}} {
		for p, in := range contents {
			last := int64(len(in)) - 1
			want = append(want, Row{of.group, p, last, last, 0, of.owner, of.generation})
		}
	}
	same(t, "status", rows, want)
}
