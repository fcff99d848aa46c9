package scenario

import (
	"context"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
	"notifylab/internal/worker"
)

// Many scenarios are one play: a message kills its worker at a crash point, once,
// and another one is right behind it. They differ in the point and the settings,
// and so in what the protocol predicts.

const (
	lease     = 10 * time.Second // the workers' defaults
	retention = 24 * time.Hour
)

// crashAt makes a lesson of a crash at a point.
func crashAt(point worker.Point, s Scenario) Scenario {
	s.channels = []notify.Channel{notify.Push}
	s.check = func(settings event.Settings) error {
		_, err := Predict(settings, point, Kill)
		return err
	}
	s.play = func(ctx context.Context, st *stage) error { return playCrash(ctx, st, point) }
	s.judge = func(c cast, r *Record) Verdict { return judgeCrash(c, r, point) }
	return s
}

func playCrash(ctx context.Context, s *stage, point worker.Point) error {
	flags := s.fullHands()
	if s.concurrency() > 1 { // the others' sends are to outlast the way to the point
		flags = append(flags, patient()...)
	}
	if _, err := s.worker(ctx, notify.Push, flags...); err != nil {
		return err
	}
	if err := s.fillHand(ctx, provider.Faults{}); err != nil {
		return err
	}
	victim, behind := s.victim(point), s.behind(2, "8")
	if err := s.publish(ctx, post{victim, notify.Push, point}, post{behind, notify.Push, ""}); err != nil {
		return err
	}
	if err := s.awaitPoint(ctx, event.Crash, victim, behind, notify.Push, point); err != nil {
		return err
	}
	if err := s.awaitEnds(ctx, notify.Push, append(s.beside, victim)...); err != nil {
		return err
	}
	return s.awaitSettled(ctx, behind.ID, notify.Push)
}

// victim makes the notification that brings its worker to a point: one that is
// refused if that is about a copy.
func (s *stage) victim(point worker.Point) notify.Notification {
	if aroundCopy(point) {
		return s.notification(1, "999", s.text())
	}
	return s.notification(1, "7", s.text())
}

func judgeCrash(c cast, r *Record, point worker.Point) Verdict {
	want, err := Predict(c.settings, point, Kill)
	if err != nil {
		return inconclusive(r.Events, r.Elapsed, err.Error())
	}
	victim, behind := Subject{c.victim.ID, string(notify.Push)}, Subject{c.behind.ID, string(notify.Push)}
	findings := []Finding{
		r.accepted(c.victim.ID, victim, want.Accepted),
		r.accepted("the one behind it", behind, 1),
		r.said("worker lines", victim, want.Lines...),
		r.times("worker lines", victim, event.Sent, count(want.Lines, event.Sent)),
		r.revived(victim, want.Redelivered),
	}
	if point == worker.AfterClaim && c.settings.ClaimLease {
		held := lease
		if len(c.beside) > 0 {
			held = patientLease
		}
		findings = append(findings, r.recordAtCrash(victim, Pending, held))
	}
	findings = append(findings, r.record(victim, want.Record, retention))
	findings = append(findings, r.besides(c, point, Kill)...)
	findings = append(findings, r.leftovers(c.victim, want)...)
	v := judged(r, findings, []Fate{r.fate(c.victim, notify.Push), r.fate(c.behind, notify.Push)}).about(c.victim.ID)
	return v.predicted(want)
}

// predicted says what was wanted.
func (v Verdict) predicted(want Prediction) Verdict {
	v.Want, v.Why = want.Outcome, want.Why
	if want.OrTwice && v.Outcome == Twice {
		v.Want = Twice
	}
	v.Bug, v.Fixed = v.Want == Lost || v.Want == Twice, v.Want == Once
	return v
}

// leftovers checks that nothing is left in the queues, but for what is parked: that
// has to be there, and may be there twice.
func (r *Record) leftovers(victim notify.Notification, want Prediction) []Finding {
	if want.Outcome != Parked {
		return []Finding{r.ready("notify.push", 0), r.elsewhere("notify.push")}
	}
	return []Finding{
		r.parkedAsPublished(victim), r.parkedAfter(victim, 3), r.ready("push.dlq", max(1, len(r.Parked))),
		r.ready("notify.push", 0), r.elsewhere("notify.push", "push.dlq"),
	}
}

func count(kinds []event.Kind, kind event.Kind) int {
	n := 0
	for _, k := range kinds {
		if k == kind {
			n++
		}
	}
	return n
}

func crash() Scenario {
	return crashAt(worker.BeforeAck, Scenario{
		Name: "crash", Mode: "crash", Lesson: 2, Outcome: Twice, Next: "idempotency",
		Tags:  []string{"lesson", "kill", "duplicate"},
		Title: "the fail moment: crash between send and ack",
		Shows: "a crash between send and ack: redelivered, sent again",
		Help: `RabbitMQ forgets a message when its consumer acks it, and not before: that is
at-least-once delivery. Here the push worker sends the notification and dies before
it acks (SIGKILL, by its own hand, at the crash point before-ack). The supervisor
starts it again, the broker redelivers, and nothing remembers that it was sent.

What to look for
  SENT, CRASH — worker dying after send, BEFORE ack, RESTART, RECEIVED (redelivered),
  and SENT again for the same id. The provider's ledger has it twice.`,
		ByHand: `  notifylab supervise push=1 -- --idempotency off --claim-lease off    # one terminal
  notifylab produce --mode crash                                       # another
  # SENT, CRASH, RESTART, RECEIVED (redelivered), and SENT again`,
	})
}

func idempotency() Scenario {
	return crashAt(worker.BeforeAck, Scenario{
		Name: "idempotency", Mode: "crash", Lesson: 3, Outcome: Once, Next: "crash-claim",
		Tags:     []string{"lesson", "kill", "duplicate"},
		Title:    "the fix: an idempotency record",
		Shows:    "the same crash with a record: the redelivery is dropped",
		Settings: event.Settings{Idempotency: true},
		Help: `Before it sends, the worker claims a record in Redis: notification:<id>:<channel>:<user>,
with SET NX, for 24 hours. The crash of lesson 2 and the redelivery still happen, but
the redelivery finds the record and is dropped.

What to look for
  SENT, CRASH — worker dying after send, BEFORE ack, then DUPLICATE DROPPED instead of
  a second SENT. The record is claimed, for at most 86,400 s.`,
		ByHand: `  notifylab supervise push=1 -- --idempotency on --claim-lease off    # one terminal
  notifylab produce --mode crash                                      # another
  # SENT, CRASH, RESTART, RECEIVED (redelivered), DUPLICATE DROPPED`,
	})
}

func crashClaim() Scenario {
	return crashAt(worker.AfterClaim, Scenario{
		Name: "crash-claim", Mode: "crash-claim", Lesson: 4, Outcome: Lost, Next: "claim-lease",
		Tags:     []string{"lesson", "kill"},
		Title:    "a gap in the fix, crash before the send",
		Shows:    "a gap in the fix: crash before the send",
		Settings: event.Settings{Idempotency: true},
		Help: `The claim is written before the provider is called, and it is one permanent fact: it
can't tell "I am at it" from "it is done". Here the worker dies in between. The
redelivery finds the claim and is dropped. The notification was never sent, the queue
is empty, and nothing says so but the provider's ledger.

What to look for
  CLAIMED, CRASH — worker dying AFTER claim, BEFORE send, DUPLICATE DROPPED, and no
  SENT for this id. The one behind it is SENT: the worker could.

The same gap loses two more kinds of message while claim-lease is off: one that is
refused after its session has ended (its redelivery meets the claim), and one that is
given back at a stop while its claim can't be released.`,
		ByHand: `  notifylab supervise push=1 -- --idempotency on --claim-lease off    # one terminal
  notifylab produce --mode crash-claim                                # another
  # CLAIMED, CRASH, RESTART, RECEIVED (redelivered), DUPLICATE DROPPED: never SENT`,
	})
}

func claimLease() Scenario {
	return crashAt(worker.AfterClaim, Scenario{
		Name: "claim-lease", Mode: "crash-claim", Lesson: 5, Outcome: Once, Next: "dead-letter",
		Tags:     []string{"lesson", "kill"},
		Title:    "closing the gap: a claim that knows the difference",
		Shows:    "a lease closes it: pending is recovered, done is dropped",
		Settings: event.Settings{Idempotency: true, ClaimLease: true},
		Help: `The claim becomes two states: pending, a lease of 10 seconds that is written before the
send, and done, for 24 hours, written after it. On redelivery done means a duplicate,
and pending means that an attempt did not come to its end: if its owner is known to be
dead the claim is recovered at once, else when the lease has ended.

What to look for
  CLAIMED (pending), CRASH — worker dying AFTER claim, BEFORE send, CLAIM RECOVERED,
  SENT, DONE: sent once.

What stays open, with any lease: a worker that is stopped between its last look at the
lease and the provider's acceptance, or dies between the acceptance and done, or servers
that are away for longer than the lease in between. Each ends in a second send.`,
		ByHand: `  notifylab supervise push=1 -- --idempotency on --claim-lease on    # one terminal
  notifylab produce --mode crash-claim                               # another
  # CLAIMED, CRASH, RESTART, RECEIVED (redelivered), CLAIM RECOVERED, SENT, DONE`,
	})
}
