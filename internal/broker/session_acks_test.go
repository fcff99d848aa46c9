package broker

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"notifylab/internal/notify"
	"notifylab/internal/rounds"
)

// A delivery that is held up at the head must not set the others' pace, and when
// the connection is cut exactly what was not settled comes again.
func TestSession_AcksInAnyOrder(t *testing.T) {
	t.Parallel()
	const messages, prefetch, unsettled = 2500, 512, 101
	b := newBench(t)
	b.fill(t, messages)
	s := b.open(t, prefetch)
	held := next(t, s)

	// The others are settled in an order of chance: each new delivery takes a
	// random place among those in hand and another one leaves.
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	var hand []*notify.Delivery
	for range messages - 1 {
		hand = append(hand, next(t, s))
		if len(hand) == prefetch-1 { // with the held one no more would come
			i := r.IntN(len(hand))
			s.Ack(hand[i])
			hand[i] = hand[len(hand)-1]
			hand = hand[:len(hand)-1]
		}
	}
	r.Shuffle(len(hand), func(i, j int) { hand[i], hand[j] = hand[j], hand[i] })
	for _, d := range hand[unsettled-1:] {
		s.Ack(d)
	}
	rest := append(hand[:unsettled-1:unsettled-1], held)
	// That the queue has taken all those acks shows in the deliveries that it
	// makes in their places.
	b.fill(t, prefetch-unsettled)
	rest = append(rest, nextN(t, s, prefetch-unsettled)...)
	s.conn.cut()
	awaitOver(t, s)

	s = b.open(t, 2*prefetch)
	again := nextN(t, s, len(rest))
	got, want := idsOf(again), idsOf(rest)
	slices.Sort(got)
	slices.Sort(want)
	equal(t, "came again", got, want)
	for _, d := range again {
		if !d.Redelivered {
			t.Errorf("%s is not marked as redelivered", idOf(d))
		}
	}
	if n := s.Close(soon(t)); n != len(rest) {
		t.Errorf("want %d in hand, got %d", len(rest), n)
	}
}

// Acks are held only while there is something to begin: a worker whose deliveries are
// all in hand gets no other before one is acked.
func TestSession_HoldsNoAckOfWhoHasNothingToBegin(t *testing.T) {
	t.Parallel()
	const prefetch = 4
	b := newBench(t)
	b.fill(t, prefetch+2)
	s := b.open(t, prefetch)
	hand := nextN(t, s, prefetch)
	if s.acks.unbegun() {
		t.Error("all are in hand, and there is said to be something to begin")
	}
	s.Ack(hand[2]) // beyond a hole
	next(t, s)
	s.Ack(hand[3])
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for ctx := soon(t); !s.acks.unbegun(); {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatal("one waits, and there is said to be nothing to begin")
		}
	}
}

// A worker that is told to stop acks what it finishes, however much that is: not
// one of them may come again. The broker has other work to do, so that the queue
// lags behind its acks.
func TestSession_NoAckIsLostWhenItIsClosed(t *testing.T) {
	t.Parallel()
	const each = 300
	stop := keepBusy(t)
	defer stop()
	for range 2 {
		b := newBench(t)
		ids := b.fill(t, 3*each)
		s := b.open(t, 2*each)
		all := nextN(t, s, 2*each)
		if err := s.Cancel(soon(t)); err != nil {
			t.Fatal(err)
		}
		want := ids[2*each:]
		for i, d := range all {
			if i%2 == 0 { // each a hole for the next
				want = append(want, idOf(d))
			} else {
				s.Ack(d)
			}
		}
		if n := s.Close(soon(t)); n < each || n > 2*each {
			t.Errorf("%d of %d given back", n, 2*each)
		}
		s = b.open(t, 4*each)
		got := idsOf(nextN(t, s, 2*each))
		slices.Sort(got)
		slices.Sort(want)
		equal(t, "came again", got, want)
		if n := s.Close(soon(t)); n != 2*each {
			t.Errorf("want %d in hand, got %d", 2*each, n)
		}
	}
}

// keepBusy keeps the broker writing until stop is called.
func keepBusy(t *testing.T) (stop func()) {
	t.Helper()
	b := newBench(t)
	ctx, cancel := context.WithCancel(context.Background())
	var running, started sync.WaitGroup
	for range 4 {
		p := b.publisher(t, 500)
		receipts := make(chan *Receipt, 500)
		started.Add(1)
		running.Go(func() {
			defer close(receipts)
			for n := 0; ctx.Err() == nil; n++ {
				r, err := p.Start(soon(t), Message{Queue: b.work(), Body: make([]byte, 2000)})
				if err != nil {
					t.Error(err)
					return
				}
				receipts <- r
				if n == 500 {
					started.Done()
				}
			}
		})
		running.Go(func() {
			for r := range receipts {
				r.Wait(soon(t))
			}
		})
	}
	started.Wait()
	return func() { cancel(); running.Wait() }
}

func TestSession_AckNowIsInTheBrokerWhenItReturns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(t, 3)
	s := b.open(t, 3)
	all := nextN(t, s, 3)
	if err := s.AckNow(soon(t), all[1]); err != nil {
		t.Fatal(err)
	}
	s.conn.cut()
	awaitOver(t, s)
	wantIs(t, s.AckNow(soon(t), all[0]), notify.ErrSessionOver)
	s = b.open(t, 3)
	equal(t, "came again", idsOf(nextN(t, s, 2)), []string{"m1", "m3"})
	if n := s.Close(soon(t)); n != 2 {
		t.Errorf("want 2 in hand, got %d", n)
	}
}

// Nothing of an ended session is settled on a later one. (EasyNetQ/EasyNetQ#1329)
func TestSession_AnAckOfAnEndedSessionDoesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(t, 1)
	old := b.open(t, 1)
	stale := next(t, old)
	old.conn.cut()
	awaitOver(t, old)
	s := b.open(t, 1)
	d := next(t, s)
	old.Ack(stale)
	if err := s.Check(soon(t)); err != nil {
		t.Fatal(err)
	}
	if n := s.Close(soon(t)); n != 1 {
		t.Errorf("want 1 given back, got %d", n)
	}
	if got := idOf(next(t, b.open(t, 1))); got != idOf(d) {
		t.Errorf("want %s again, got %s", idOf(d), got)
	}
}

// Round trips are shared: how many ask at the same time costs none of them its time, on
// a long way to the broker, too.
func TestSession_ManyCheckAtOnce(t *testing.T) {
	t.Parallel()
	const many, way, patience = 200, 200 * time.Millisecond, 20 * time.Second
	b := newBench(t)
	b.fill(t, many)
	s := b.open(t, many)
	s.publishTimeout = patience
	s.trips = rounds.New(func(since time.Time) (struct{}, error) {
		defer func() { <-time.After(way) }()
		return s.trip(since)
	})
	var all sync.WaitGroup
	for _, d := range nextN(t, s, many) {
		all.Go(func() {
			if err := s.AckNow(soon(t), d); err != nil {
				t.Error(err, s.Err())
			}
		})
	}
	all.Wait()
	s.conn.cut()
	awaitOver(t, s)
	b.awaitReady(t, b.work(), 0)
}

// What is held beyond a hole is written before the round trip that AckNow waits for.
func TestSession_AckNowDoesNotWaitForAHole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.fill(t, 3)
	s := b.open(t, 8)
	next(t, s) // the hole
	d := next(t, s)
	for len(s.deliveries) == 0 { // one that nobody has begun, so that acks are held
		runtime.Gosched()
	}
	if err := s.AckNow(soon(t), d); err != nil {
		t.Fatal(err)
	}
	s.conn.cut()
	awaitOver(t, s)
	equal(t, "came again", idsOf(nextN(t, b.open(t, 8), 2)), []string{ids[0], ids[2]})
}

// Nobody is told that the session lives by a round trip that failed.
func TestSession_CheckAfterTheCut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 20 {
		s := b.open(t, 1)
		s.conn.cut()
		wantIs(t, s.Check(soon(t)), notify.ErrSessionOver)
		s.Close(soon(t))
	}
}
