package scenario

import (
	"fmt"

	"notifylab/internal/event"
	"notifylab/internal/worker"
)

// Outcome is what became of a notification on a channel.
type Outcome string

const (
	Once    Outcome = "once"
	Twice   Outcome = "twice"   // or more often
	Lost    Outcome = "lost"    // confirmed, never accepted, and nowhere left
	Parked  Outcome = "parked"  // among the dead letters
	Unknown Outcome = "unknown" // neither accepted nor parked, and still somewhere
)

// Outcomes lists those that can be expected.
func Outcomes() []Outcome { return []Outcome{Once, Twice, Lost, Parked} }

// outcome names what the ledger says.
func outcome(accepted int, parked, left bool) Outcome {
	switch {
	case accepted == 1:
		return Once
	case accepted > 1:
		return Twice
	case parked:
		return Parked
	case left:
		return Unknown
	}
	return Lost
}

// A Prediction is what the protocol makes of a message whose worker is killed at
// one of its crash points, once.
type Prediction struct {
	Accepted    int // how often the provider accepts it
	Outcome     Outcome
	Lines       []event.Kind // what the workers say of it, in this order, among other things
	Redelivered bool         // whether the broker hands it over again
	Record      State        // what its record says in the end
	Why         string
}

// State is the state of a record: that of [idem.State], or none.
type State string

const (
	NoRecord State = "none"
	Claimed  State = "claimed"
	Pending  State = "pending"
	Done     State = "done"
)

// Predict derives what becomes of a message when the worker that handles it is
// killed at p under these settings, and starts again. It is an error if the
// settings never come to that point.
//
// The first handling has been accepted from mid-send on. What the second one does
// is up to what the first has left behind: nothing (it sends), a claim for good
// (it drops), a lease of the dead (it sends), or done (it drops). If both send, a
// key that the provider knows makes the second one no more than a question.
func Predict(s event.Settings, p worker.Point) (Prediction, error) {
	if s.Ack == "early" {
		return predictEarly(p)
	}
	at := func(others ...worker.Point) bool { return before(p, others...) }
	recorded := s.Idempotency && !at(worker.AfterReceive)
	if p == worker.AfterClaim && !s.Idempotency {
		return Prediction{}, fmt.Errorf("crash point %s: there is no claim with idempotency off", p)
	}
	if at(worker.BeforeCopy, worker.AfterCopy) {
		return Prediction{}, fmt.Errorf("crash point %s: only a refused message comes there", p)
	}
	sentBefore := at(worker.MidSend, worker.AfterSend, worker.BeforeAck, worker.AfterAck)
	answered := sentBefore && p != worker.MidSend
	done := recorded && s.ClaimLease && at(worker.BeforeAck, worker.AfterAck)
	redelivered := p != worker.AfterAck
	sendsAgain := redelivered && (!recorded || s.ClaimLease && !done)

	pr := Prediction{Record: remembered(s), Redelivered: redelivered}
	if sentBefore {
		pr.Accepted = 1
	}
	if sendsAgain && !(sentBefore && s.ProviderKey) {
		pr.Accepted++
	}
	pr.Lines = lines(s, p, recorded, answered, done, redelivered, sendsAgain)
	pr.Outcome = outcome(pr.Accepted, false, false)
	pr.Why = why(pr.Outcome, s, p, sentBefore, recorded, done)
	return pr, nil
}

// remembered returns what the record of a notification says once it was sent.
func remembered(s event.Settings) State {
	switch {
	case !s.Idempotency:
		return NoRecord
	case !s.ClaimLease:
		return Claimed
	}
	return Done
}

// leased says whether claims are for a lease.
func leased(s event.Settings) bool { return s.Idempotency && s.ClaimLease }

func before(p worker.Point, others ...worker.Point) bool {
	for _, o := range others {
		if p == o {
			return true
		}
	}
	return false
}

func lines(s event.Settings, p worker.Point, recorded, answered, done, redelivered, sendsAgain bool) []event.Kind {
	var l []event.Kind
	if recorded && s.ClaimLease {
		l = append(l, event.Claimed)
	}
	if answered {
		l = append(l, event.Sent)
	}
	if done {
		l = append(l, event.Done)
	}
	l = append(l, event.Crash)
	switch {
	case !redelivered:
	case !sendsAgain:
		l = append(l, event.DuplicateDropped)
	case recorded:
		l = append(l, event.ClaimRecovered, event.Sent, event.Done)
	case s.Idempotency && s.ClaimLease:
		l = append(l, event.Received, event.Claimed, event.Sent, event.Done)
	default:
		l = append(l, event.Received, event.Sent)
	}
	return l
}

func predictEarly(p worker.Point) (Prediction, error) {
	pr := Prediction{Record: NoRecord, Lines: []event.Kind{event.Crash}}
	switch p {
	case worker.AfterReceive, worker.BeforeSend:
		pr.Why = "acked before the send, and never sent"
	case worker.MidSend:
		pr.Accepted, pr.Why = 1, "acked early, and the crash came after the acceptance"
	case worker.AfterSend:
		pr.Accepted, pr.Why = 1, "acked early, and the crash came after the acceptance"
		pr.Lines = []event.Kind{event.Sent, event.Crash}
	default:
		return Prediction{}, fmt.Errorf("crash point %s: with ack early there is no such place", p)
	}
	pr.Outcome = outcome(pr.Accepted, false, false)
	return pr, nil
}

// why says in a line how the outcome comes about.
func why(o Outcome, s event.Settings, p worker.Point, sentBefore, recorded, done bool) string {
	switch {
	case o == Lost:
		return "claimed, never sent, then dropped as a duplicate"
	case o == Twice && !recorded:
		return "sent, not acked, redelivered and sent again: nothing remembered it"
	case o == Twice:
		return "sent, not yet done, redelivered and sent again: no lease closes this window"
	case p == worker.AfterAck:
		return "acked before the crash: nothing was redelivered"
	case done:
		return "sent and done before the crash, so the redelivery was dropped"
	case sentBefore && s.ProviderKey:
		return "sent before the crash, and the provider knew the second attempt by its key"
	case sentBefore:
		return "sent before the crash, and the redelivery found its record and was dropped"
	case recorded:
		return "the claim was pending, its owner dead: recovered, sent once"
	}
	return "nothing was done before the crash: the redelivery sent it"
}
