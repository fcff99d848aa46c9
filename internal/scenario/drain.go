package scenario

import (
	"context"
	"fmt"
	"syscall"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
	"notifylab/internal/worker"
)

func drain() Scenario {
	return Scenario{
		Name: "drain", Outcome: Once, Next: "prefetch-blast",
		Tags:     []string{"stop", "kill", "duplicate"},
		Title:    "SIGTERM and SIGKILL in the middle of a send",
		Shows:    "SIGTERM finishes what is in hand, SIGKILL sends it again",
		Settings: event.Settings{Idempotency: true, ClaimLease: true},
		Help: `A deployment stops workers, and one of them is always in the middle of a send. SIGTERM
asks: the worker begins nothing more, finishes what it has in hand, acks, gives back the
rest, and exits 0. What was in the send is not redelivered. It may take --grace for that
(10 s); a container's stop time-out should be longer.

SIGKILL does not ask. The call is on its way, and the provider accepts it whether or not
anybody reads the answer. The broker redelivers, the record says pending and its owner is
dead, so it is sent again. No lease closes this window: a provider's key does.

What to look for
  First: DRAINING, SENT, DONE, RESTART (exit 0), and no RECEIVED (redelivered) for it.
  Then: RESTART (killed), RECEIVED (redelivered), CLAIM RECOVERED, and SENT for what the
  provider has accepted before.`,
		ByHand: `  notifylab provider --delay 4s                                    # one terminal
  notifylab worker push --provider-url http://127.0.0.1:3200        # another
  notifylab produce --channel push      # a third; now Ctrl-C the worker: DRAINING, SENT, and it ends
  notifylab queues                      # notify.push: 0 ready
  # the same with kill -9 of the worker: 1 ready, and ACCEPTED AGAIN when a worker comes`,
		channels: []notify.Channel{notify.Push},
		play:     playDrain,
		judge:    judgeDrain,
	}
}

func playDrain(ctx context.Context, s *stage) error {
	p, err := s.worker(ctx, notify.Push, patient()...)
	if err != nil {
		return err
	}
	asked, behind := s.notification(1, "7", s.text()), s.behind(2, "8")
	release, err := s.intoSend(ctx, asked, behind)
	if err != nil {
		return err
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := s.awaitDraining(ctx); err != nil {
		return err
	}
	if err := s.awaitReady(ctx, s.topology.Work(notify.Push), 1); err != nil { // the one behind it, which nobody takes
		return err
	}
	release()
	if err := s.awaitSettled(ctx, asked.ID, notify.Push); err != nil {
		return err
	}
	if err := s.awaitSettled(ctx, behind.ID, notify.Push); err != nil {
		return err
	}

	killed, behind := s.notification(3, "7", "killed in the send"), s.behind(4, "8")
	if release, err = s.intoSend(ctx, killed, behind); err != nil {
		return err
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	s.note(killed, notify.Push, 1, "SIGKILL in the send")
	return s.playAgain(ctx, killed, behind, release)
}

// awaitDraining waits until a worker that was told to stop has heard of it, with
// something in hand.
func (s *stage) awaitDraining(ctx context.Context) error {
	_, err := s.history.Await(ctx, func(e event.Event) bool { return e.Kind == event.Draining })
	if err != nil {
		return never{"no worker was draining", s.lastLog(), context.Cause(ctx)}
	}
	return nil
}

// intoSend publishes two notifications and returns when the provider has the first
// one's call in hand, and keeps it.
func (s *stage) intoSend(ctx context.Context, victim, behind notify.Notification) (release func(), err error) {
	release = s.hold(victim.ID)
	if err := s.publish(ctx, post{victim, notify.Push, ""}, post{behind, notify.Push, ""}); err != nil {
		return release, err
	}
	return release, s.awaitHeld(ctx, 1, victim.ID, notify.Push)
}

// playAgain is what comes after a worker was killed whose call the provider has in
// hand: another one, but for a record that drops the redelivery.
func (s *stage) playAgain(ctx context.Context, victim, behind notify.Notification, release func()) error {
	calls := 2
	if s.Settings.Idempotency && !s.Settings.ClaimLease {
		calls = 1
		if err := s.await(ctx, event.DuplicateDropped, victim.ID, notify.Push); err != nil {
			return err
		}
	} else if err := s.awaitHeld(ctx, calls, victim.ID, notify.Push); err != nil {
		return err
	}
	release()
	if err := s.awaitCalls(ctx, calls, victim.ID, notify.Push); err != nil {
		return err
	}
	if err := s.await(ctx, event.Acked, victim.ID, notify.Push); err != nil {
		return err
	}
	return s.awaitSettled(ctx, behind.ID, notify.Push)
}

// awaitCalls waits until the provider has accepted, or known by its key, so many
// calls for a notification.
func (s *stage) awaitCalls(ctx context.Context, calls int, id string, c notify.Channel) error {
	err := s.provider.Await(ctx, func(l *provider.Ledger) bool { return l.Accepted(id, c)+l.Deduplicated(id, c) >= calls })
	if err != nil {
		return never{fmt.Sprintf("the provider never answered %s for %s on %s", quantity(calls, "calls"), id, c), s.reason(id, c), context.Cause(ctx)}
	}
	return nil
}

func judgeDrain(c cast, r *Record) Verdict {
	asked, killed := c.victim, c.all[2]
	want, err := Predict(c.settings, worker.MidSend, Kill)
	if err != nil {
		return inconclusive(r.Events, r.Elapsed, err.Error())
	}
	draining := func(e event.Event) bool { return e.Kind == event.Draining }
	sent := func(e event.Event) bool { return e.Kind == event.Sent && about(e, subject(asked, notify.Push)) }
	ended := func(e event.Event) bool { return e.Kind == event.Restart && e.Exit == "exit 0" }
	findings := []Finding{
		r.accepted("SIGTERM, "+asked.ID, subject(asked, notify.Push), 1),
		r.order("SIGTERM heard, and it was sent", draining, sent, asked.ID),
		r.order("sent, and the worker ended", sent, ended, asked.ID),
		r.times("SIGTERM", subject(asked, notify.Push), event.Received, 1),
		r.times("SIGTERM", subject(asked, notify.Push), event.Sent, 1),
		r.restarts(notify.Push, "exit 0", 1, asked.ID),
		r.accepted("the one behind it", subject(c.behind, notify.Push), 1),
		r.accepted("SIGKILL, "+killed.ID, subject(killed, notify.Push), want.Accepted),
		r.redelivered("SIGTERM", subject(asked, notify.Push), 0),
		r.redelivered("SIGKILL", subject(killed, notify.Push), 1),
		r.restarts(notify.Push, "killed", 1, killed.ID),
		r.accepted("the one behind that", subject(c.all[3], notify.Push), 1),
		r.record(subject(asked, notify.Push), remembered(c.settings), retention),
		r.record(subject(killed, notify.Push), want.Record, retention),
		r.ready("notify.push", 0),
		r.elsewhere("notify.push"),
	}
	var fates []Fate
	for _, n := range c.all {
		fates = append(fates, r.fate(n, notify.Push))
	}
	v := judged(r, findings, fates).about(asked.ID)
	v.Want = Once
	v.Why = fmt.Sprintf("SIGTERM let it be finished and acked; what SIGKILL hit was accepted %s", []string{"never", "once", "twice"}[want.Accepted])
	return v
}
