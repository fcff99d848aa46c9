package lab

import (
	"slices"
	"testing"
	"time"
)

func TestNotes_queues(t *testing.T) {
	t.Parallel()
	c, n := dial(t)
	ns := place(t, c)
	notes := NewNotes(c, ns, 0)
	if all, err := notes.Queues(soon(t)); len(all) != 0 || err != nil {
		t.Errorf("of nothing: %v, %v", all, err)
	}
	if err := notes.Declared(soon(t), "quorum"); err != nil {
		t.Errorf("no queue at all: %v", err)
	}
	n.losing("hset", 1)
	for _, q := range []QueueNote{{"b", "quorum"}, {"a", "classic"}, {"b", "quorum"}, {"c", "classic"}, {"c", "quorum"}} {
		if err := notes.Declared(soon(t), q.Type, q.Name); err != nil {
			t.Fatal(err)
		}
	}
	got, err := notes.Queues(soon(t))
	if want := []QueueNote{{"a", "classic"}, {"b", "quorum"}, {"c", "quorum"}}; !slices.Equal(got, want) || err != nil {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if ttl := c.TTL(soon(t), notes.queues()).Val(); ttl != -1 {
		t.Errorf("notes live %v, want for ever", ttl)
	}
	if err := NewNotes(c, ns, time.Minute).Declared(soon(t), "quorum", "d"); err != nil {
		t.Fatal(err)
	}
	if ttl := c.TTL(soon(t), notes.queues()).Val(); ttl <= 0 || ttl > time.Minute {
		t.Errorf("notes live %v, want a minute", ttl)
	}
}

func TestNotes_workers(t *testing.T) {
	t.Parallel()
	c, _ := dial(t)
	ns := place(t, c)
	notes, other := NewNotes(c, ns, 0), NewNotes(c, place(t, c), 0)
	alive := func(w WorkerNote) {
		t.Helper()
		if err := notes.Alive(soon(t), w); err != nil {
			t.Fatal(err)
		}
	}
	want := func(want ...WorkerNote) {
		t.Helper()
		if got, err := notes.Workers(soon(t)); !slices.Equal(got, want) || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	want()
	first := WorkerNote{Name: "push-worker-1", Owner: "boot/8:1/1/life1", PID: 1, Queue: "q", InHand: 3}
	elsewhere := WorkerNote{Name: "push-worker-1", Owner: "other/8:1/1/life2", PID: 1, Queue: "q", InHand: 2}
	second := WorkerNote{Name: "push-worker-2", Owner: "boot/8:2/2/life3", PID: 2, Queue: "q"}
	alive(second)
	alive(first)
	alive(elsewhere) // another machine's of the same name
	want(first, elsewhere, second)

	// It dies, and another life in its slot does not stand beside it.
	next := first
	next.Owner, next.PID, next.InHand = "boot/8:1/1/life4", 9, 1
	alive(next)
	want(next, elsewhere, second)
	if err := notes.Gone(soon(t), second.Owner); err != nil {
		t.Fatal(err)
	}
	want(next, elsewhere)
	if all, err := other.Workers(soon(t)); len(all) != 0 || err != nil {
		t.Errorf("in another namespace: %v, %v", all, err)
	}
	key := notes.worker(placeOf(next.Owner))
	if ttl := c.PTTL(soon(t), key).Val(); ttl <= 0 || ttl > 3*time.Second {
		t.Errorf("believed for %v, want three seconds", ttl)
	}
	// The three seconds are over.
	if err := c.Del(soon(t), key).Err(); err != nil {
		t.Fatal(err)
	}
	want(elsewhere)
	if n := c.SCard(soon(t), notes.workers()).Val(); n != 1 {
		t.Errorf("%d are remembered, want 1", n)
	}
	alive(next)
	want(next, elsewhere)
}

func TestNotes_turns(t *testing.T) {
	t.Parallel()
	c, n := dialWithin(t, commandTime/2)
	notes := NewNotes(c, place(t, c), 0)
	turn := func(channel, want string) {
		t.Helper()
		if got := notes.WhoseTurn(soon(t), channel); got != want {
			t.Errorf("%s: got %q, want %q", channel, got, want)
		}
	}
	turn("push", "")
	if err := notes.Turn(soon(t), "push", "dlq replay, pid 7"); err != nil {
		t.Fatal(err)
	}
	turn("push", "dlq replay, pid 7")
	turn("email", "")
	if ttl := c.TTL(soon(t), notes.turn("push")).Val(); ttl <= 0 || ttl > turnMemory {
		t.Errorf("a turn is remembered for %v", ttl)
	}
	if err := notes.TurnOver(soon(t), "push"); err != nil {
		t.Fatal(err)
	}
	turn("push", "")
	if err := notes.Turn(soon(t), "push", "the api"); err != nil {
		t.Fatal(err)
	}
	n.blackhole(true)
	turn("push", "") // nobody says
	n.blackhole(false)
	turn("push", "the api")
}
