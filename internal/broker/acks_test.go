package broker

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/quick"
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
	a, l := newAcks(), newLedger()
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
			acks, _ := a.take()
			if err := l.takeAll(acks); err != nil {
				return err
			}
		}
	}
	acks, _ := a.take()
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
	a := newAcks()
	for range 8 {
		a.opened()
	}
	settle := func(tags ...uint64) (got []ack) {
		for _, tag := range tags {
			a.settle(tag)
		}
		got, _ = a.take()
		return got
	}
	equal(t, "beyond a hole", settle(3), []ack{{tag: 3}})
	equal(t, "the run over one acked singly", settle(1, 2, 4, 6, 8), []ack{{tag: 4, multiple: true}, {tag: 6}, {tag: 8}})
	equal(t, "the run that ends in one acked singly", settle(5), []ack{{tag: 5, multiple: true}})
	equal(t, "nothing new", settle(), nil)
	equal(t, "the last", settle(7), []ack{{tag: 7, multiple: true}})
}

func TestAcks_GivenBackIsWhatIsOpenAndStaysSo(t *testing.T) {
	t.Parallel()
	a, l := newAcks(), newLedger()
	over := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- a.run(over, l.take) }()
	for range 6 {
		l.deliver()
		a.opened()
	}
	for _, tag := range []uint64{2, 5} {
		l.settled[tag] = true
		a.settle(tag)
	}
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
