package worker

import (
	"context"

	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
)

// An ending is how a handling leaves its delivery.
type ending int

const (
	settled  ending = iota // acked, now or before
	busy                   // unsettled, until somebody else's record changes
	uncopied               // unsettled, until its copy can be made
	left                   // unsettled: the broker hands it over again
)

// run takes one delivery from received to settled. ctx ends when the worker is
// told to stop. That ends the waiting for a server that is away, and cuts short
// nothing: what is in hand is finished.
func (h *handling) run(ctx context.Context) ending {
	h.received()
	if h.AckEarly && !h.ackNow(ctx) {
		return left
	}
	if h.poison(ctx) {
		return h.park(ctx, "crashed", "the worker died with it again and again")
	}
	h.crash(AfterReceive)
	if h.malformed != nil {
		return h.park(ctx, "malformed", h.malformed.Error())
	}
	settings, err := h.settings(ctx)
	if err != nil {
		return left
	}

	if settings.Idempotency {
		verdict, err := h.claimFirst(ctx, settings.ClaimLease)
		for ; err == nil && verdict == idem.Acquired && !h.enoughLeft(); verdict, err = h.claimAgain(ctx) {
		}
		switch {
		case err != nil:
			return left
		case verdict == idem.Duplicate:
			return h.ack(ctx)
		case verdict == idem.Conflict:
			return h.park(ctx, "conflict", "same id, other text")
		case verdict == idem.Busy:
			return busy
		}
	}

	h.crash(BeforeSend)
	switch result := h.send(settings); result.Answer {
	case notify.Accepted:
		h.say(event.Event{Kind: event.Sent, Text: h.n.Text})
		h.crash(AfterSend)
		h.complete(ctx)
		h.crash(BeforeAck)
		return h.ack(ctx)
	case notify.RefusedForGood:
		return h.refused(ctx, result, forGood)
	case notify.Unknown:
		h.say(event.Event{Kind: event.Unknown, Reason: result.Reason})
		return h.refused(ctx, result, h.ParkUnknown)
	default: // refused for now, or not sent at all
		return h.refused(ctx, result, forNow)
	}
}

// Whether a refusal is final.
const (
	forGood = true
	forNow  = false
)
