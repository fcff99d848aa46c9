package worker

import (
	"context"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/idem"
)

// claimFirst makes this handling's claim. An error means that the delivery is
// left to the broker: nothing was sent. Nobody knows then whether the claim was
// written, so it is taken back as far as Redis lets it: in state claimed it would
// drop the redelivery.
func (h *handling) claimFirst(ctx context.Context, leased bool) (idem.Verdict, error) {
	h.claim = h.Records.Claim(h.n, h.Channel, leased)
	verdict, err := h.tryClaim(ctx, h.claim.Try)
	switch {
	case err != nil:
		_ = h.insist(ctx, func(ctx context.Context) error { _, err := h.claim.Release(ctx); return err })
		return verdict, err
	case verdict == idem.Acquired:
		h.say(event.Event{Kind: event.Claimed, Key: h.claim.Key(), State: string(h.claim.State()), TTLMS: h.claim.TTL().Milliseconds()})
	case verdict != idem.Recovered:
		return verdict, nil
	}
	h.crash(AfterClaim)
	return idem.Acquired, nil
}

// claimAgain is for a claim that has too little of its lease left. It asks first
// whether the session lives: if not, somebody else has the message by now.
func (h *handling) claimAgain(ctx context.Context) (idem.Verdict, error) {
	h.lost++
	h.say(event.Event{Kind: event.LeaseLost})
	if h.s.Check(context.WithoutCancel(ctx)) != nil {
		return 0, errLeft
	}
	if h.lost%maxLost == 0 {
		h.found = h.claim.Mine() // until it expires
		return idem.Busy, nil
	}
	verdict, err := h.tryClaim(ctx, h.claim.Again)
	if verdict == idem.Recovered {
		verdict = idem.Acquired
	}
	return verdict, err
}

// maxLost is how often a claim is made again before its delivery waits.
const maxLost = 3

func (h *handling) tryClaim(ctx context.Context, try func(context.Context) (idem.Verdict, idem.Record, error)) (verdict idem.Verdict, err error) {
	err = h.untilRedisAnswers(ctx, func(ctx context.Context) (err error) {
		verdict, h.found, err = try(ctx)
		return err
	})
	if err != nil {
		return verdict, err
	}
	switch verdict {
	case idem.Recovered:
		h.say(event.Event{Kind: event.ClaimRecovered, Key: h.claim.Key()})
	case idem.Duplicate:
		h.say(event.Event{Kind: event.DuplicateDropped, Key: h.claim.Key(), State: string(h.found.State)})
	case idem.Conflict:
		h.say(event.Event{Kind: event.Conflict, Key: h.claim.Key()})
	case idem.Busy:
		h.sayBusy(ctx)
	}
	return verdict, nil
}

func (h *handling) sayBusy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, idem.Timeout)
	defer cancel()
	e := event.Event{Kind: event.LeaseBusy, Key: h.claim.Key(), Owner: h.nameOf(h.found.Owner)}
	if left, err := h.claim.Remaining(ctx); err == nil {
		e.TTLMS = left.Milliseconds()
	}
	h.say(e)
}

// enoughLeft is the clock check: whether a send and the record of it fit into
// what is left of the lease. The send has to end in time for its record, counted from
// before the check.
func (h *handling) enoughLeft() bool {
	now := time.Now()
	left := h.claim.Left() - idem.Timeout
	h.until = now.Add(left)
	return left >= h.SendTimeout || h.Without == Clock
}
