package broker

import (
	"errors"
	"testing"
	"time"

	"notifylab/internal/notify"
)

// Whoever looks sees what the broker has handed over, also what nobody has taken
// from the session yet.
func TestSession_InHand(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(t, 12)
	s := b.open(t, 10)
	inHand := func(want int) {
		t.Helper()
		for ctx := soon(t); s.InHand() != want; {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("%d in hand, want %d", s.InHand(), want)
			}
		}
	}
	b.awaitReady(t, b.work(), 2)
	inHand(10)
	taken := nextN(t, s, 3)
	inHand(10)
	s.Ack(taken[1])
	inHand(10) // another in its place
	b.awaitReady(t, b.work(), 1)
	s.Ack(taken[0])
	s.Ack(taken[1]) // twice is once
	b.awaitReady(t, b.work(), 0)
	inHand(10)
	s.Ack(taken[2])
	inHand(9)
	if err := s.Cancel(soon(t)); err != nil {
		t.Fatal(err)
	}
	for range s.Deliveries() { // whatever of it still comes: it is given back
	}
	inHand(9)
	if n := s.Close(soon(t)); n != 9 {
		t.Errorf("%d given back, want 9", n)
	}
	if n := s.InHand(); n != 0 {
		t.Errorf("%d in hand after the end", n)
	}
	again := nextN(t, b.open(t, 20), 9)
	if first := idOf(again[0]); first != "m4" {
		t.Errorf("%s comes first", first)
	}
}

func TestConn_Compare(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.dial(t)
	compare := func(tp Topology, want int) error {
		t.Helper()
		there, err := c.Compare(soon(t), tp)
		if there != want {
			t.Errorf("%d there, want %d (%v)", there, want, err)
		}
		return err
	}
	if err := compare(b.Topology, 3); err != nil {
		t.Error(err)
	}
	more := b.Topology
	more.Channels = notify.Channels()
	if err := compare(more, 3); err != nil {
		t.Error(err)
	}
	for _, q := range more.QueueNames()[3:] {
		if _, _, there, err := c.Ready(soon(t), q); there || err != nil {
			t.Errorf("%s was made, %v", q, err)
		}
	}
	if err := c.Delete(soon(t), b.work()); err != nil {
		t.Fatal(err)
	}
	if err := compare(b.Topology, 2); err != nil {
		t.Error(err)
	}
	classic := b.Topology
	classic.Type = Classic
	var got *ConflictError
	want := ConflictError{b.deadLetters(), "x-queue-type", "classic", "quorum"}
	if err := compare(classic, 1); !errors.As(err, &got) || *got != want {
		t.Errorf("got %v, want %v", err, want)
	}
	if err := compare(b.Topology, 2); err != nil {
		t.Errorf("the comparison changed something: %v", err)
	}
}
