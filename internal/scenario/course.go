package scenario

import (
	"notifylab/internal/event"
	"notifylab/internal/worker"
)

// lines are what the workers say of the message, as far as chance has no part in it.
func (c course) lines() []event.Kind {
	leased := leased(c.settings)
	var l []event.Kind
	say := func(when bool, kinds ...event.Kind) {
		if when {
			l = append(l, kinds...)
		}
	}
	say(leased && c.recorded, event.Claimed)
	say(c.answered, event.Sent)
	say(c.done, event.Done)
	say(c.fault == Kill, event.Crash)
	say(c.fault == Stop, event.Stopped)

	switch {
	case c.acked:
	case !c.second:
		say(true, event.DuplicateDropped)
	case !c.recorded:
		say(true, event.Received)
		say(leased, event.Claimed)
		say(true, event.Sent)
		say(leased, event.Done)
	case c.fault == Kill:
		say(true, event.ClaimRecovered, event.Sent, event.Done)
	default:
		say(true, event.LeaseBusy, event.Claimed, event.Sent, event.Done)
	}

	if c.fault == Stop {
		say(true, event.Woke)
		say(c.woken, event.Sent)
		say(c.settings.Idempotency && !c.recorded, event.DuplicateDropped)
		say(leased && c.recorded && !c.done, event.LeaseLost)
	}
	return l
}

// why says in a line how the outcome comes about.
func (c course) why(o Outcome) string {
	if c.fault == Stop {
		return c.whyStopped(o)
	}
	switch {
	case c.early && o == Lost:
		return "acked before the send, and never sent"
	case c.early:
		return "acked early, and the crash came after the acceptance"
	case o == Lost:
		return "claimed, never sent, then dropped as a duplicate"
	case o == Twice && !c.recorded:
		return "sent, not acked, redelivered and sent again: nothing remembered it"
	case o == Twice:
		return "sent, not yet done, redelivered and sent again: no lease closes this window"
	case c.acked:
		return "acked before the crash: nothing was redelivered"
	case c.done:
		return "sent and done before the crash, so the redelivery was dropped"
	case c.accepted && c.settings.ProviderKey:
		return "sent before the crash, and the provider knew the second attempt by its key"
	case c.accepted:
		return "sent before the crash, and the redelivery found its record and was dropped"
	case c.recorded:
		return "the claim was pending, its owner dead: recovered, sent once"
	}
	return "nothing was done before the crash: the redelivery sent it"
}

func (c course) whyStopped(o Outcome) string {
	switch {
	case c.early && c.woken:
		return "acked early, so nobody else had it; the worker woke and sent it"
	case c.early:
		return "acked early, after the acceptance; the answer may be too late to be read, and then it is tried again"
	case c.acked:
		return "acked before the stop: nothing was redelivered"
	case o == Twice && c.woken:
		return "redelivered and sent while it was stopped; then it woke and sent, and nothing stopped it"
	case o == Twice && c.recorded:
		return "accepted, not yet done, and the lease ended while it was stopped: sent again, and no lease closes this window"
	case o == Twice:
		return "sent, redelivered and sent again: nothing remembered it"
	case c.woken && !c.second:
		return "dropped as a duplicate while it was stopped, so the broker had forgotten it; it woke and sent it"
	case c.second && c.accepted, c.second && c.woken:
		return "both sent, and the provider knew the second by its key"
	case c.second && c.recorded && c.point == worker.BeforeSend:
		return "the lease ended while it was stopped, so another sent it; it woke to a send whose deadline, made from the lease, had passed"
	case c.second && c.recorded:
		return "the lease ended while it was stopped, so another sent it; it woke, saw that by the clock, and did not send"
	case c.second:
		return "redelivered and sent while it was stopped; it woke and met the record"
	}
	return "sent before the stop, and the redelivery found its record and was dropped"
}
