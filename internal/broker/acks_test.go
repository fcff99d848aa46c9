package broker

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/quick"
	"time"
)

// ledger is the broker's side of a channel: it knows which deliveries are not
// acked, and refuses what the broker refuses.
type ledger struct {
	delivered uint64
	unacked   map[uint64]bool
	settled   map[uint64]bool // by the handlers
	back      int
}

func newLedger() *ledger {
	return &ledger{unacked: map[uint64]bool{}, settled: map[uint64]bool{}}
}

func (l *ledger) deliver() uint64 {
	l.delivered++
	l.unacked[l.delivered] = true
	return l.delivered
}

func (l *ledger) take(k ack) error {
	if k == nackAll() {
		for tag := range l.unacked {
			if l.settled[tag] {
				return fmt.Errorf("%d was settled and is given back", tag)
			}
			l.back++
			delete(l.unacked, tag)
		}
		return nil
	}
	if !l.unacked[k.tag] {
		return fmt.Errorf("406: unknown delivery tag %d in %+v", k.tag, k)
	}
	for tag := range l.unacked {
		if tag == k.tag || k.multiple && tag < k.tag {
			if !l.settled[tag] {
				return fmt.Errorf("%+v acks %d, which is open", k, tag)
			}
			delete(l.unacked, tag)
		}
	}
	return nil
}

// owed is how many are settled, and not acked.
func (l *ledger) owed() int {
	n := 0
	for tag := range l.unacked {
		if l.settled[tag] {
			n++
		}
	}
	return n
}

func (l *ledger) takeAll(acks []ack) error {
	for _, k := range acks {
		if err := l.take(k); err != nil {
			return err
		}
	}
	return nil
}

// play settles deliveries in an order and a rhythm drawn from seed, with one held
// open for long, and returns what the broker would object to.
func play(seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 1))
	prefetch, messages := 1+r.IntN(64), 1+r.IntN(300)
	a, l := newAcks(prefetch, func() bool { return r.IntN(2) > 0 }), newLedger()
	var open []uint64
	held := uint64(1 + r.IntN(messages))
	for done := 0; done < messages; {
		if len(open) < prefetch && int(l.delivered) < messages && r.IntN(3) > 0 {
			open = append(open, l.deliver())
			a.opened()
			continue
		}
		if len(open) > 0 && r.IntN(2) > 0 {
			i := r.IntN(len(open))
			if open[i] == held && len(open) > 1 {
				continue
			}
			tag := open[i]
			open = append(open[:i], open[i+1:]...)
			l.settled[tag] = true
			a.settle(tag)
			a.settle(uint64(r.IntN(messages)) + l.delivered + 1) // never came
			if r.IntN(4) == 0 {
				a.settle(tag) // twice
			}
			done++
			if done == messages && r.IntN(2) > 0 {
				break
			}
		}
		if r.IntN(4) == 0 {
			acks, _, _ := a.take(r.IntN(2) > 0)
			if err := l.takeAll(acks); err != nil {
				return err
			}
			if n := l.owed(); n > prefetch/4 {
				return fmt.Errorf("%d acks are held, of a prefetch of %d", n, prefetch)
			}
		}
	}
	acks, _, _ := a.take(false)
	if err := l.takeAll(acks); err != nil {
		return err
	}
	if len(l.unacked) != 0 || len(a.tags) != 0 {
		return fmt.Errorf("all are settled, but not acked: %v; left in the books: %d", l.unacked, len(a.tags))
	}
	return nil
}

func TestAcks_CoverWhatIsSettledOnceAndNothingElse(t *testing.T) {
	t.Parallel()
	err := quick.Check(func(seed uint64) bool {
		if err := play(seed); err != nil {
			t.Errorf("seed %d: %v", seed, err)
			return false
		}
		return true
	}, &quick.Config{MaxCount: 1000})
	if err != nil {
		t.Error(err)
	}
}

func TestAcks_AreAsFewAsTheHolesAllow(t *testing.T) {
	t.Parallel()
	a := newAcks(0, busy) // and none are held
	for range 8 {
		a.opened()
	}
	settle := func(tags ...uint64) (got []ack) {
		for _, tag := range tags {
			a.settle(tag)
		}
		got, _, _ = a.take(false)
		return got
	}
	equal(t, "beyond a hole", settle(3), []ack{{tag: 3}})
	equal(t, "the run over one acked singly", settle(1, 2, 4, 6, 8), []ack{{tag: 4, multiple: true}, {tag: 6}, {tag: 8}})
	equal(t, "the run that ends in one acked singly", settle(5), []ack{{tag: 5, multiple: true}})
	equal(t, "nothing new", settle(), nil)
	equal(t, "the last", settle(7), []ack{{tag: 7, multiple: true}})
}

// busy is a worker that has more than its handlers have begun.
func busy() bool { return true }

// What lies beyond a hole waits for it to close: not if it is too much, or too late, or
// somebody waits for it or has nothing else to do.
func TestAcks_BeyondAHoleAreHeld(t *testing.T) {
	t.Parallel()
	unbegun := true
	a := newAcks(8, func() bool { return unbegun })
	for range 12 {
		a.opened()
	}
	settle := func(overdue bool, tags ...uint64) []ack {
		for _, tag := range tags {
			a.settle(tag)
		}
		got, _, held := a.take(overdue)
		if held != (len(a.late) > 0) {
			t.Errorf("held: %v, with %d", held, len(a.late))
		}
		return got
	}
	equal(t, "a quarter", settle(false, 2, 4), nil)
	equal(t, "one is not beyond it any more", settle(false, 1), []ack{{tag: 2, multiple: true}})
	equal(t, "the hole closes", settle(false, 3), []ack{{tag: 4, multiple: true}})
	equal(t, "too much", settle(false, 6, 7, 8), []ack{{tag: 6}, {tag: 7}, {tag: 8}})
	equal(t, "held again", settle(false, 9), nil)
	equal(t, "too late", settle(true), []ack{{tag: 9}})
	a.await(make(chan struct{}))
	equal(t, "somebody waits", settle(false, 10), []ack{{tag: 10}})
	unbegun = false
	equal(t, "nobody has anything to begin", settle(false, 11), []ack{{tag: 11}})
	equal(t, "the last", settle(false, 5, 12), []ack{{tag: 12, multiple: true}})
}

// A delivery that is held up for ever keeps nothing else from being acked, soon.
func TestAcks_BeyondAHoleAreNotHeldForLong(t *testing.T) {
	t.Parallel()
	a := newAcks(1000, busy)
	written, over, ended := make(chan ack), make(chan struct{}), make(chan error, 1)
	go func() { ended <- a.run(over, func(k ack) error { written <- k; return nil }) }()
	a.opened()
	for tag := uint64(2); tag < 5; tag++ {
		a.opened()
		began := time.Now()
		a.settle(tag)
		select {
		case k := <-written:
			if waited := time.Since(began); k != (ack{tag: tag}) || waited < hold/2 {
				t.Errorf("%+v after %v, want %d by itself after %v or more", k, waited, tag, hold)
			}
		case <-soon(t).Done():
			t.Fatalf("%d is not acked", tag)
		}
	}
	close(over)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAcks_GivenBackIsWhatIsOpenAndStaysSo(t *testing.T) {
	t.Parallel()
	a, l := newAcks(64, busy), newLedger()
	for range 6 {
		l.deliver()
		a.opened()
	}
	l.settled[2], l.settled[5] = true, true
	over := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- a.run(over, l.take) }() // the ledger is its from now on
	a.settle(2)
	a.settle(5)
	a.close()
	a.settle(3)
	if n := a.giveBack(); n != 4 {
		t.Errorf("want 4 given back, got %d", n)
	}
	if err := a.flush(soon(t), over); err != nil {
		t.Error(err)
	}
	close(over)
	if err := <-ended; err != nil || l.back != 4 || len(l.unacked) != 0 {
		t.Errorf("%v; the broker has %d back, %v unacked", err, l.back, l.unacked)
	}
}
