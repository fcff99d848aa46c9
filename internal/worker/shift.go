package worker

import (
	"context"
	"sync"
	"time"

	"notifylab/internal/event"
)

// A shift is the work of one session: who handles what, and when.
type shift struct {
	*Worker
	s       Session
	gate    chan struct{} // one for each handler that runs
	waiting *waiting
	life    context.Context // ends with the session, or when the worker is to stop
}

// work handles what the session gives until it is over or ctx ends. Then it is
// closed: after all handlers are done if the worker was told to stop, at once if
// it is over by itself, since handlers outlive their session.
func (w *Worker) work(ctx context.Context, s Session) {
	life, end := context.WithCancel(ctx)
	defer end()
	sh := &shift{Worker: w, s: s, gate: make(chan struct{}, w.Concurrency), waiting: newWaiting(), life: life}
	stop := make(chan struct{})
	var helpers sync.WaitGroup
	helpers.Go(func() { // the session's end is life's end
		select {
		case <-s.Over():
			end()
		case <-stop:
		}
	})
	helpers.Go(func() { sh.waiting.run(life) })
	sh.dispatch(ctx)
	if s.Err() == nil {
		sh.drain()
	}
	end()
	close(stop)
	helpers.Wait()
	closing, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if n := s.Close(closing); n > 0 {
		w.say(event.Event{Kind: event.GivenBack, Queue: w.Queue, Messages: n})
	}
}

// closeTimeout bounds the last words to the broker.
const closeTimeout = 3 * time.Second

// dispatch starts handlers until life ends.
func (sh *shift) dispatch(ctx context.Context) {
	deliveries := sh.s.Deliveries()
	for {
		select {
		case <-sh.life.Done():
			return
		default: // what has arrived when the worker is told to stop is not begun
		}
		select {
		case <-sh.life.Done():
			return
		case d, ok := <-deliveries:
			if !ok {
				deliveries = nil // the session's end, of which Over is about to tell
				continue
			}
			sh.begin(ctx, sh.newHandling(sh.s, d))
		case h := <-sh.waiting.again:
			sh.begin(ctx, h)
		}
	}
}

// begin has h handled as soon as there is room: for one handler, or, a suspect,
// for all of them, so that nothing else is in hand and a crash is its own.
func (sh *shift) begin(ctx context.Context, h *handling) {
	places := 1
	if isSuspect(h.d) {
		places = sh.Concurrency
	}
	if !sh.enter(sh.life, places) {
		return // not begun
	}
	sh.all.Go(func() {
		end := sh.handle(ctx, h)
		h.ended(end) // before another begins, which may kill the worker
		sh.leave(places)
		sh.after(ctx, h, end)
	})
}

func (sh *shift) handle(ctx context.Context, h *handling) ending {
	if isSuspect(h.d) {
		return sh.untilSettled(ctx, h)
	}
	return h.run(ctx)
}

// enter takes places at the gate, when they are free. It returns false, with none,
// if ctx has ended by then.
func (sh *shift) enter(ctx context.Context, places int) bool {
	taken := 0
	for taken < places && ctx.Err() == nil {
		select {
		case sh.gate <- struct{}{}:
			taken++
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		sh.leave(taken)
		return false
	}
	return true
}

func (sh *shift) leave(places int) {
	for range places {
		<-sh.gate
	}
}

// after sees to what a handling has left behind.
func (sh *shift) after(ctx context.Context, h *handling, end ending) {
	switch end {
	case busy:
		sh.waiting.add(h)
	case uncopied:
		sh.all.Go(func() { sh.copyLater(ctx, h) })
	case left:
		if h.begun && sh.s.Err() != nil && !sh.AckEarly { // the broker has it back
			h.say(event.Event{Kind: event.Dropped, Detail: true})
		}
	}
}

// copyLater tries again to make a copy. It gives up when the broker gets the
// message back, which for one that was acked early is never: then only the
// worker's own end is.
func (sh *shift) copyLater(ctx context.Context, h *handling) {
	until := sh.life
	if sh.AckEarly {
		until = ctx
	}
	var unblocked <-chan struct{}
	if h.blocked {
		unblocked = h.by.Unblocked()
	}
	select {
	case <-time.After(h.copyWait()):
	case <-unblocked:
	case <-until.Done():
	}
	if !sh.enter(until, 1) {
		if sh.AckEarly {
			h.note("lost: acked early, and no copy could be made")
		}
		h.ended(left)
		sh.after(ctx, h, left)
		return
	}
	end := h.copy(ctx)
	h.ended(end)
	sh.leave(1)
	sh.after(ctx, h, end)
}

// drain is the orderly end: no more deliveries, what is in hand is finished (that
// of earlier sessions, too: its copies may need this one), the rest is given back
// by Close.
func (sh *shift) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if sh.s.Cancel(ctx) == nil {
		for range sh.s.Deliveries() { // what arrived before the broker heard of it
		}
	}
	if len(sh.gate) > 0 {
		sh.say(event.Event{Kind: event.Draining})
	}
	sh.all.Wait()
}

// current returns a session that lives, waiting for one if need be.
func (w *Worker) current(ctx context.Context) (Session, error) {
	for {
		s, changed := w.latest.get()
		if s != nil && s.Err() == nil {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, errLeft
		}
	}
}

// latest is the newest session, for whoever has to have one.
type latest struct {
	mu      sync.Mutex
	s       Session
	changed chan struct{}
}

func (l *latest) set(s Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.s = s
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

func (l *latest) get() (Session, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.s, l.changed
}
