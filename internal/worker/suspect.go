package worker

import (
	"context"

	"notifylab/internal/idem"
	"notifylab/internal/notify"
)

// isSuspect says whether the message may be what kills the worker: it comes for
// the third time, or, of a broker that does not count, again.
func isSuspect(d *notify.Delivery) bool {
	if d.Counted {
		return d.Count >= 2
	}
	return d.Redelivered
}

// poison counts a suspect, once, and says whether it has been counted too often.
// Without an answer from Redis it goes uncounted.
func (h *handling) poison(ctx context.Context) bool {
	if !isSuspect(h.d) || h.counted || h.malformed != nil || h.Records == nil {
		return false
	}
	h.counted = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*idem.Timeout)
	defer cancel()
	n, err := h.Records.CountCrash(ctx, h.n, h.Channel)
	if err != nil {
		h.note("a suspect is not counted: " + err.Error())
	}
	return err == nil && n > h.MaxCrashes
}

// ended forgets that a suspect was counted, if its handling has come to an end,
// whichever: it did not kill the worker.
func (h *handling) ended(end ending) {
	if !h.counted || end == busy || end == uncopied {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), idem.Timeout)
	defer cancel()
	if err := h.Records.ForgetCrashes(ctx, h.n, h.Channel); err != nil {
		h.note(err.Error()) // it forgets by itself within the hour
	}
}

// untilSettled handles a suspect, when the broker has the acks of all that was settled
// before: if it kills the worker, none of that comes again with it. One that is found
// busy is still in hand.
func (sh *shift) untilSettled(ctx context.Context, h *handling) ending {
	if sh.s.Check(context.WithoutCancel(ctx)) != nil {
		return left
	}
	for {
		if end := h.run(ctx); end != busy {
			return end
		}
		if !h.untilFree(sh.life) {
			return left
		}
	}
}
