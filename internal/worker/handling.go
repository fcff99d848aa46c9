package worker

import (
	"context"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
)

// A handling is the worker's work on one delivery.
type handling struct {
	*Worker
	s Session
	d *notify.Delivery

	n         notify.Notification
	malformed error // why there is none
	armed     lab.Trap

	begun   bool // received was said
	counted bool // as a suspect
	claim   *idem.Claim
	until   time.Time   // the send's end, by the clock check
	found   idem.Record // what makes it busy
	lost    int         // how often too little of the lease was left
	copy    func(context.Context) ending
	by      Session // by which it was tried last
	waits   int     // for its copy
	blocked bool    // its copy waited for the end of an alarm
}

func (w *Worker) newHandling(s Session, d *notify.Delivery) *handling {
	h := &handling{Worker: w, s: s, d: d, by: s}
	h.n, h.malformed = notify.Decode(d.Body)
	if d.Crash != "" && w.CrashPoints && h.malformed == nil {
		armed, _ := lab.ParseArming(d.Crash, Points())
		h.armed = lab.Trap{Arming: armed, Marks: w.Marks, ID: h.n.ID, Who: string(w.Channel)}
	}
	return h
}

// attempt is the number of the send that this handling makes.
func (h *handling) attempt() int { return h.d.Attempts + 1 }

// note says something that whoever watches this delivery should know.
func (h *handling) note(text string) { h.say(event.Event{Kind: event.Note, Reason: text}) }

// say emits an event about this delivery.
func (h *handling) say(e event.Event) {
	e.ID, e.User, e.Channel = h.n.ID, h.n.User, string(h.Channel)
	h.Worker.say(e)
}

// received begins a handling from nothing, and says so the first time: a delivery
// that was busy comes again, and the settings may have been switched by then.
func (h *handling) received() {
	h.claim = nil
	if !h.begun {
		h.begun = true
		h.say(event.Event{Kind: event.Received, Redelivered: h.d.Redelivered, Attempt: h.attempt(), Queue: h.Queue})
	}
}

// settings returns the settings for this delivery: none of them with ack early.
func (h *handling) settings(ctx context.Context) (event.Settings, error) {
	if h.AckEarly {
		return event.Settings{}, nil
	}
	var s event.Settings
	err := h.untilRedisAnswers(ctx, func(ctx context.Context) (err error) {
		s, err = h.Settings(ctx)
		return err
	})
	return s, err
}

// send makes one attempt. It is not cut short by the end of the session or of
// the worker. Under a lease it ends in time for its record to be written: whatever
// passed since the clock check counts, but for a suspend just then.
func (h *handling) send(settings event.Settings) notify.Result {
	until := time.Now().Add(h.SendTimeout)
	if h.claim != nil && h.Without != Clock && h.until.Before(until) {
		until = h.until
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	ctx, passed := h.crashInSend(ctx)
	a := notify.Attempt{Channel: h.Channel, Notification: h.n}
	if settings.ProviderKey {
		a.Key = notify.ProviderKey(h.n, h.Channel)
	}
	result := h.Sender.Send(ctx, a)
	passed()
	return result
}

// complete marks the record as done. What was accepted is acked whatever becomes
// of that, so it is tried until Redis answers or the worker is told to stop.
func (h *handling) complete(ctx context.Context) {
	if h.claim == nil || h.claim.State() == idem.Claimed {
		return
	}
	var ours bool
	err := h.insist(ctx, func(ctx context.Context) (err error) {
		ours, err = h.claim.Complete(ctx)
		return err
	})
	switch {
	case err != nil:
		h.say(event.Event{Kind: event.Unrecorded, Key: h.claim.Key(), Reason: err.Error()})
	case !ours:
		h.say(event.Event{Kind: event.LeaseLost, Key: h.claim.Key(), Reason: "sent without it: somebody else has the record"})
	default:
		h.say(event.Event{Kind: event.Done, Key: h.claim.Key(), State: string(idem.Done), TTLMS: h.Retention.Milliseconds()})
	}
}

// ack settles the delivery, if its session still can.
func (h *handling) ack(ctx context.Context) ending {
	switch {
	case h.AckEarly: // it was, before anything else
	case h.s.Err() != nil:
		return left
	case h.armed.Point != AfterAck:
		h.s.Ack(h.d)
		h.say(event.Event{Kind: event.Acked, Detail: true})
	case !h.ackNow(ctx):
		return left
	}
	h.crash(AfterAck)
	return settled
}

// ackNow returns true when the broker has the ack. Of one that was written when the
// session ended nobody knows.
func (h *handling) ackNow(ctx context.Context) bool {
	if h.s.AckNow(context.WithoutCancel(ctx), h.d) != nil {
		if h.AckEarly {
			h.note("perhaps lost: acked early, and the session ended before the broker answered; if it has not got the ack it hands the message over again")
		}
		return false
	}
	h.say(event.Event{Kind: event.Acked, Detail: true})
	return true
}
