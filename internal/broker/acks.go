package broker

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"notifylab/internal/notify"
)

// acks is the one owner of a session's acks. Deliveries are settled in any
// order and by anyone; one goroutine writes, whenever it is free, what is
// settled by then:
//
//	tags      1 2 3 4 5 6 7 8        s settled, a acked before, . open
//	          s s a s . s . s
//	written   multiple up to 4; after [hold], if 5 is open still, single 6, single 8
//
// An ack never covers an open tag: multiple goes no further than the run of
// settled tags that begins at the lowest one, and is named by the run's highest
// tag that was not acked singly before (naming one that was is refused with
// 406). A run of a hundred costs the broker no more than one ack. So whatever runs is
// let settle what it has first, and what lies beyond a hole is held: for [hold], a
// quarter of the prefetch at most, and while there are deliveries that nobody has begun.
// Else the broker could not hand over further ones, and a delivery that is held up would
// set everyone's pace.
type acks struct {
	most    int         // tags that are held
	unbegun func() bool // whether there are deliveries to begin

	mu      sync.Mutex
	lowest  uint64     // the tag of tags[0]: the lowest that is not yet acked in a run
	tags    []tagState // from lowest on, in order
	late    []uint64   // settled and not yet written
	closed  bool       // nothing is settled any more
	back    bool       // what is open is to be given back
	waiting []chan<- struct{}
	wake    chan struct{} // holds one
}

// hold is how long an ack beyond a hole waits for the hole to close. Under full load
// most do by then: what is in hand takes about as long. If the worker dies meanwhile
// the broker hands it over again, as it does what was in hand.
const hold = 5 * time.Millisecond

type tagState byte

const (
	open tagState = iota
	settled
	acked
)

// An ack as it goes to the broker.
type ack struct {
	tag      uint64
	multiple bool
	requeue  bool // a nack, rather
}

// nackAll gives back everything that is not acked: tag 0 with multiple.
func nackAll() ack { return ack{tag: 0, multiple: true, requeue: true} }

// newAcks returns the acks of a session that has at most so many deliveries unsettled.
func newAcks(prefetch int, unbegun func() bool) *acks {
	return &acks{most: prefetch / 4, unbegun: unbegun, lowest: 1, wake: make(chan struct{}, 1)}
}

// opened notes that a delivery has arrived. Their tags come in order, without
// gaps, from 1.
func (a *acks) opened() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tags = append(a.tags, open)
}

// settle marks a delivery as settled; its ack is written soon. To settle one
// twice, or one that never came, does nothing.
func (a *acks) settle(tag uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := tag - a.lowest // huge if it is below
	if a.closed || i >= uint64(len(a.tags)) || a.tags[i] != open {
		return
	}
	a.tags[i] = settled
	a.late = append(a.late, tag)
	a.signal()
}

// signal is called with mu held.
func (a *acks) signal() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// settledSince says whether more is settled than before, and notes how many.
func (a *acks) settledSince(before *int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := len(a.late)
	more := now > *before
	*before = now
	return more
}

// take returns what is to be written now, and who waits for it. Acks beyond a hole are
// held if they may be, and are not overdue.
func (a *acks) take(overdue bool) (out []ack, waiting []chan<- struct{}, held bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	run, highest := 0, -1
	for ; run < len(a.tags) && a.tags[run] != open; run++ {
		if a.tags[run] == settled {
			highest = run
		}
	}
	if highest >= 0 {
		out = append(out, ack{tag: a.lowest + uint64(highest), multiple: true})
	}
	a.tags = a.tags[run:]
	a.lowest += uint64(run)
	a.late = slices.DeleteFunc(a.late, func(tag uint64) bool { return tag < a.lowest })
	if overdue || a.back || len(a.waiting) > 0 || len(a.late) > a.most || !a.unbegun() {
		for _, tag := range a.late {
			a.tags[tag-a.lowest] = acked
			out = append(out, ack{tag: tag})
		}
		a.late = a.late[:0]
	}
	if a.back {
		out = append(out, nackAll())
	}
	a.back = false
	waiting, a.waiting = a.waiting, nil
	return out, waiting, len(a.late) > 0
}

// run writes acks until over is closed or a write fails.
func (a *acks) run(over <-chan struct{}, write func(ack) error) error {
	var due <-chan time.Time // nil: nothing is held
	for {
		overdue := false
		select {
		case <-over:
			return nil
		case <-a.wake:
		case <-due:
			overdue = true
		}
		for before := -1; a.settledSince(&before); {
			runtime.Gosched()
		}
		acks, waiting, held := a.take(overdue)
		switch {
		case !held:
			due = nil
		case due == nil:
			due = time.After(hold)
		}
		for _, k := range acks {
			if err := write(k); err != nil {
				return err
			}
		}
		for _, w := range waiting {
			close(w)
		}
	}
}

// flush returns nil when all that was settled before the call is written.
func (a *acks) flush(ctx context.Context, over <-chan struct{}) error {
	written := make(chan struct{})
	a.await(written)
	select {
	case <-written:
		return nil
	case <-over:
		return notify.ErrSessionOver
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *acks) await(written chan<- struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, written)
	a.signal()
}

// close lets nothing be settled any more.
func (a *acks) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
}

// giveBack has everything that is open given back soon, and returns how many
// that is. The acks are closed by then, and nothing more arrives.
func (a *acks) giveBack() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, s := range a.tags {
		if s == open {
			n++
		}
	}
	a.back = n > 0
	a.signal()
	return n
}
