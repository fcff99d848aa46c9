package worker

import (
	"context"
	"net/http/httptrace"
	"sync"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/idem"
)

// crash is a crash point: if the message has armed it the process dies here, or
// stops until it is continued. All that happened before has been said by then,
// and nothing is said between the line and the end.
func (h *handling) crash(p Point) {
	if h.armed.Point != p {
		return
	}
	if !h.armed.Stop { // while one dies no other gets to its own point: it would be marked, and never said
		h.dying.Lock()
		defer h.dying.Unlock()
	}
	if !h.armed.Fires(p, h.note) {
		return
	}
	if !h.armed.Stop {
		h.say(event.Event{Kind: event.Crash, Point: string(p)})
		h.flush()
		h.Die()
		return
	}
	h.say(event.Event{Kind: event.Stopped, Point: string(p)})
	since := idem.Now()
	h.Suspend()
	h.say(event.Event{Kind: event.Woke, Point: string(p), Elapsed: since.Elapsed().Milliseconds()})
}

// crashInSend lets the point in a send be passed when the first byte of an answer
// is there, if the message has armed it. After passed it is not passed any more; if
// it is being passed, that is waited for.
func (h *handling) crashInSend(ctx context.Context) (_ context.Context, passed func()) {
	if h.armed.Point != MidSend {
		return ctx, func() {}
	}
	var first sync.Once
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotFirstResponseByte: func() { first.Do(func() { h.crash(MidSend) }) },
	}), func() { first.Do(func() {}) }
}

// flushTime is how long the journal may keep a worker from dying.
const flushTime = time.Second

// flush lets the journal have all that was said, so that a crash's line is there
// before the crash.
func (w *Worker) flush() {
	if w.Flush == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	_ = w.Flush(ctx) // dying is not put off any further
}
