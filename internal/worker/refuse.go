package worker

import (
	"context"
	"errors"
	"strings"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// refused ends a handling whose notification was not accepted, as far as is
// known: the claim is released first, so that neither the copy nor a redelivery
// meets it.
func (h *handling) refused(ctx context.Context, result notify.Result, final bool) ending {
	if h.claim != nil {
		ours := false
		err := h.insist(ctx, func(ctx context.Context) (err error) {
			ours, err = h.claim.Release(ctx)
			return err
		})
		if err != nil {
			h.note("given back, its claim is not released: " + err.Error())
			return left
		}
		if !ours {
			h.say(event.Event{Kind: event.LeaseLost, Key: h.claim.Key(), Reason: "no copy: somebody else has the record"})
			return h.ack(ctx)
		}
	}
	reason := "refused"
	if result.Answer == notify.Unknown {
		reason = "unknown"
	}
	if final || h.attempt() >= h.Attempts {
		return h.parkAfter(ctx, h.attempt(), reason, result.Reason)
	}
	delay := h.delay(h.attempt())
	f := h.failure(h.attempt(), reason, result.Reason)
	return h.copyThenAck(ctx, event.Event{
		Kind: event.Retry, Attempt: h.attempt(), Attempts: h.Attempts, BackoffMS: delay.Milliseconds(), Reason: result.Reason,
	}, func(ctx context.Context, s Session) error { return s.Retry(ctx, h.d, delay, f) })
}

// park puts a message that was not sent among the dead letters.
func (h *handling) park(ctx context.Context, reason, detail string) ending {
	return h.parkAfter(ctx, h.d.Attempts, reason, detail)
}

func (h *handling) parkAfter(ctx context.Context, attempts int, reason, detail string) ending {
	f := h.failure(attempts, reason, detail)
	if reason != "refused" && reason != "unknown" && !strings.HasPrefix(detail, reason) {
		detail = reason + ", " + detail
	}
	return h.copyThenAck(ctx, event.Event{Kind: event.DeadLetter, Queue: h.DeadLetters, Attempt: attempts, Reason: detail},
		func(ctx context.Context, s Session) error { return s.Park(ctx, h.d, f) })
}

func (h *handling) failure(attempts int, reason, detail string) notify.Failure {
	return notify.Failure{Reason: reason, Error: detail, Attempts: attempts, At: time.Now(), Worker: h.Name}
}

// copyThenAck publishes a copy, says so by e once it is confirmed, and acks. A
// crash in between leaves two, never none. A copy that could not be made is
// tried again later, alone: h.copy is what to call. A worker that is told to stop
// finishes what it has begun, so nothing here ends with ctx.
func (h *handling) copyThenAck(ctx context.Context, e event.Event, publish func(context.Context, Session) error) ending {
	h.copy = func(ctx context.Context) ending {
		whole := context.WithoutCancel(ctx)
		if !h.AckEarly && h.s.Check(whole) != nil {
			return left // the broker has the message back
		}
		if h.Without == Confirm && !h.ackNow(whole) {
			return left
		}
		h.crash(BeforeCopy)
		err := h.publish(ctx, publish)
		said := h.blocked
		h.blocked = errors.Is(err, notify.ErrBlocked)
		switch {
		case errors.Is(err, notify.ErrReturned):
			h.say(event.Event{Kind: event.Returned, Queue: queueOf(e, h)})
			return uncopied
		case errors.Is(err, notify.ErrNacked), h.blocked:
			if !said { // once, since an alarm can last
				h.say(event.Event{Kind: event.CopyWaiting, Queue: queueOf(e, h), Reason: err.Error()})
			}
			return uncopied
		case err != nil:
			return left
		}
		h.say(e)
		h.crash(AfterCopy)
		if h.Without == Confirm { // it was
			return settled
		}
		return h.ack(ctx)
	}
	return h.copy(ctx)
}

func queueOf(e event.Event, h *handling) string {
	if e.Kind == event.DeadLetter {
		return e.Queue
	}
	return h.Queue + ".retry." + (time.Duration(e.BackoffMS) * time.Millisecond).String()
}

// publish makes a copy through the delivery's own session. A delivery that was
// acked early has nothing else left in the broker, so its copy is made through
// whatever session there is, and again if nobody knows what became of it.
func (h *handling) publish(ctx context.Context, publish func(context.Context, Session) error) error {
	whole := context.WithoutCancel(ctx)
	if !h.AckEarly {
		return publish(whole, h.s)
	}
	for {
		s, err := h.current(ctx)
		if err != nil {
			h.note("lost: acked early, refused, and no session to make a copy with")
			return err
		}
		h.by = s
		err = publish(whole, s)
		if err == nil || errors.Is(err, notify.ErrReturned) || errors.Is(err, notify.ErrNacked) || errors.Is(err, notify.ErrBlocked) {
			return err
		}
	}
}
