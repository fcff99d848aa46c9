package scenario

import (
	"context"
	"fmt"
	"strconv"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
	"notifylab/internal/worker"
)

// A worker that has more than one message in hand: the victim, and a crowd beside it,
// each of them in a send that the provider has accepted and does not answer. What is
// done to the worker at the victim's point is done to each of the crowd in its send,
// and what comes of that is predicted, too. With one in hand there is no crowd.

// fullHands are the flags of a worker that has as many messages in hand as it handles
// at once, so that one more waits until one of them is settled.
func (s *stage) fullHands() []string { return []string{"--prefetch", strconv.Itoa(s.concurrency())} }

// fillHand returns when the one worker has room for one message more, and each of the
// others is accepted and unanswered. What the provider then does is as usual.
func (s *stage) fillHand(ctx context.Context, usual provider.Faults) error {
	defer s.provider.SetFaults(usual) // for the calls from then on: those that hang go on hanging
	if s.concurrency() == 1 {
		return nil
	}
	s.provider.SetFaults(provider.Faults{AcceptHang: []provider.Target{{}}})
	s.beside = s.aside(s.concurrency() - 1)
	var posts []post
	for _, n := range s.beside {
		posts = append(posts, on(n, notify.Push)...)
	}
	if err := s.publish(ctx, posts...); err != nil {
		return err
	}
	held := 0
	err := s.provider.Await(ctx, func(l *provider.Ledger) bool {
		held = 0
		for _, n := range s.beside {
			held += min(1, l.Held(n.ID, notify.Push))
		}
		return held == len(s.beside)
	})
	if err != nil {
		return never{fmt.Sprintf("%d of the %d beside it were in a send at once", held, len(s.beside)), s.lastLog(), context.Cause(ctx)}
	}
	return nil
}

// aside is a crowd that is not numbered with the others.
func (s *stage) aside(number int) []notify.Notification {
	var all []notify.Notification
	for n := 1; n <= number; n++ {
		all = append(all, s.register(notify.Notification{ID: fmt.Sprintf("%s-beside-%d", s.Namespace, n), User: strconv.Itoa(100 + n), Text: "one beside it"}))
	}
	s.hush(all)
	return all
}

// predictBeside is of one that was in its send, accepted and never answered, when fault
// was done to its worker at another one's point. Nothing of it is chance: who wakes has
// no answer to read, so it is unknown, and a claim for good is released.
func predictBeside(s event.Settings, p worker.Point, fault Fault) (Prediction, error) {
	if fault == Twins && p == worker.AfterClaim { // its session lives, so what is unknown is tried again
		return Prediction{Accepted: 2, Outcome: Twice, Record: Done}, nil
	}
	if fault == Twins {
		fault = Stop
	}
	want, err := Predict(s, worker.MidSend, fault)
	if want.OrTwice {
		want.OrTwice, want.Accepted, want.Outcome = false, want.Accepted+1, Twice
	}
	if want.Record == "" {
		want.Record = NoRecord
	}
	return want, err
}

// besides checks what became of the crowd beside the victim.
func (r *Record) besides(c cast, p worker.Point, fault Fault) []Finding {
	if len(c.beside) == 0 {
		return nil
	}
	want, err := predictBeside(c.settings, p, fault)
	if err != nil {
		return []Finding{{What: "beside it", Got: err.Error()}}
	}
	return []Finding{
		r.eachAccepted("in a send beside it", c.beside, notify.Push, want.Accepted),
		r.eachRedelivered("in a send beside it", c.beside, notify.Push, want.Redelivered),
		each("redis record, beside it", string(want.Record), c.beside, func(n notify.Notification) bool {
			return r.record(subject(n, notify.Push), want.Record, retention).OK
		}),
	}
}
