package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"notifylab/internal/event"
)

// Waits between tries while a server is away.
const (
	firstWait = 100 * time.Millisecond
	longWait  = time.Second
)

// lastTries is how long Redis is tried when the worker is to stop: beside a send
// it has to fit into the grace.
const lastTries = time.Second

var errLeft = errors.New("left to the broker")

// untilRedisAnswers tries do until it succeeds. It gives up, with errLeft, when
// the session is over or the worker is to stop: before a send that is no loss,
// since the broker has the message. No try is cut short: it could have written a
// claim.
func (h *handling) untilRedisAnswers(ctx context.Context, do func(context.Context) error) error {
	for wait := firstWait; ; wait = longer(wait) {
		if h.try(do) == nil {
			return nil
		}
		select {
		case <-time.After(wait):
		case <-h.s.Over():
			return errLeft
		case <-ctx.Done():
			return errLeft
		}
	}
}

// insist tries do until it succeeds, whatever becomes of the session: there is
// no other who could do it. Once the worker is to stop it is tried a little longer,
// and the error returned.
func (h *handling) insist(ctx context.Context, do func(context.Context) error) error {
	err := h.try(do)
	if err == nil {
		return nil
	}
	patience, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastTries, end) })()
	for wait := firstWait; err != nil; wait = longer(wait) {
		select {
		case <-time.After(wait):
			err = h.try(do)
		case <-patience.Done():
			return err
		}
	}
	return nil
}

// try calls do, whatever becomes of the session or the worker. What do asks Redis
// has a limit of its own.
func (h *handling) try(do func(context.Context) error) error {
	asked := time.Now()
	err := do(context.Background())
	if err == nil {
		h.redis.up(h.Worker)
	} else {
		h.redis.down(h.Worker, asked, err)
	}
	return err
}

// An outage is said once when it begins and once when it ends, however many
// handlers wait for its end.
type outage struct {
	mu       sync.Mutex
	since    time.Time // zero: there is none
	answered time.Time // the last time
}

// down is for a question that was not answered. One that was asked before the
// last answer came tells of the outage that the answer ended.
func (o *outage) down(w *Worker, asked time.Time, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() && asked.After(o.answered) {
		o.since = asked
		w.say(event.Event{Kind: event.Disconnect, Reason: "Redis does not answer, nothing is sent until it does: " + err.Error()})
	}
}

func (o *outage) up(w *Worker) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answered = time.Now()
	if !o.since.IsZero() {
		w.say(event.Event{Kind: event.Reconnected, Reason: "Redis answers again", Elapsed: time.Since(o.since).Milliseconds()})
		o.since = time.Time{}
	}
}
