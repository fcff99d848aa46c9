package scenario

import (
	"context"
	"fmt"
	"strconv"
	"syscall"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
	"notifylab/internal/supervise"
	"notifylab/internal/worker"
)

// blast is how many messages a worker has in hand when it dies.
const blast = 50

func prefetchBlast() Scenario {
	return Scenario{
		Name: "prefetch-blast", Outcome: Twice, Next: "head-of-line",
		Tags:     []string{"kill", "duplicate"},
		Title:    "what one crash redelivers",
		Shows:    "a crash redelivers all, and doubles what was in a send",
		Settings: event.Settings{Idempotency: true, ClaimLease: true},
		Help: `The prefetch is how many deliveries a worker may have unsettled, and when it dies the
broker hands all of them over again, whatever became of them. What is sent again is less:
only what was in a send (accepted, and not yet recorded as done). That is bounded by the
concurrency.

Two workers have 50 messages in hand each (prefetch 50). The push worker sends one at a
time (concurrency 1), the email worker 50 at once. The provider accepts every call and
answers none. Then both workers are killed, by one SIGKILL each.

So: a prefetch no larger than keeps the worker busy, and a concurrency no larger than you
can bear to send twice.

What to look for
  50 are redelivered on each channel. On push one is accepted twice, on email all 50 are.
  With claim-lease off none is: what was claimed is dropped. Here that was accepted, too;
  what is claimed and not yet accepted would be lost (lesson 4).`,
		ByHand: `  notifylab provider --accept-and-hang all                              # one terminal
  notifylab produce --channel push --count 50                           # another
  notifylab worker push --provider-url http://127.0.0.1:3200 --prefetch 50 --concurrency 1   # RECEIVED once
  # kill -9 the worker, and start one with the built-in provider: 50 RECEIVED (redelivered)
  notifylab worker push`,
		channels: notify.Channels(),
		play:     playBlast,
		judge:    judgeBlast,
	}
}

// inSend is how many each channel's worker sends at a time.
func inSend(c notify.Channel) int {
	if c == notify.Push {
		return 1
	}
	return blast
}

func playBlast(ctx context.Context, s *stage) error {
	all := s.crowd(1, blast, s.text())
	var posts []post
	for _, n := range all {
		posts = append(posts, on(n, notify.Channels()...)...)
	}
	if err := s.publish(ctx, posts...); err != nil {
		return err
	}
	s.provider.SetFaults(provider.Faults{AcceptHang: []provider.Target{{}}})
	var workers []*supervise.Process
	for _, c := range notify.Channels() {
		// All of them are counted before any is handed over, so that none left to hand
		// over means that all are in hand.
		if err := s.awaitReady(ctx, s.topology.Work(c), blast); err != nil {
			return err
		}
		flags := append(patient(), "--prefetch", strconv.Itoa(blast), "--concurrency", strconv.Itoa(inSend(c)))
		p, err := s.worker(ctx, c, flags...)
		if err != nil {
			return err
		}
		workers = append(workers, p)
	}
	for _, c := range notify.Channels() {
		if err := s.awaitBlast(ctx, c, all); err != nil {
			return err
		}
	}
	s.provider.SetFaults(provider.Faults{}) // for the calls from now on: those that hang go on hanging
	for _, p := range workers {
		if err := p.Signal(syscall.SIGKILL); err != nil {
			return err
		}
	}
	for _, n := range all {
		for _, c := range notify.Channels() {
			if err := s.awaitSettled(ctx, n.ID, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitBlast waits until a channel's worker has all in hand, and as many of them in a
// send as it can.
func (s *stage) awaitBlast(ctx context.Context, c notify.Channel, all []notify.Notification) error {
	accepted := 0
	err := s.provider.Await(ctx, func(l *provider.Ledger) bool {
		accepted = 0
		for _, n := range all {
			accepted += l.Accepted(n.ID, c)
		}
		return accepted == inSend(c)
	})
	if err != nil {
		return never{fmt.Sprintf("%d of %d were accepted on %s", accepted, inSend(c), c), s.lastLog(), context.Cause(ctx)}
	}
	if err := s.awaitReady(ctx, s.topology.Work(c), 0); err != nil {
		return err
	}
	s.note(all[0], c, accepted, fmt.Sprintf("%s: %d in hand, %d of them accepted and unanswered", c, blast, accepted))
	return nil
}

func judgeBlast(c cast, r *Record) Verdict {
	want, err := Predict(c.settings, worker.MidSend, Kill)
	if err != nil {
		return inconclusive(r.Events, r.Elapsed, err.Error())
	}
	var findings []Finding
	var fates []Fate
	for _, ch := range notify.Channels() {
		sending := min(inSend(ch), len(c.all))
		findings = append(findings,
			r.noted(string(ch)+", at the crash", subject(c.victim, ch), sending, "accepted"),
			r.restarts(ch, "killed", 1, c.victim.ID),
			r.eachRedelivered(string(ch)+", in hand at the crash", c.all, ch, true),
			r.eachAccepted(string(ch)+", in a send at the crash", c.all[:sending], ch, want.Accepted))
		if rest := c.all[sending:]; len(rest) > 0 {
			findings = append(findings, r.eachAccepted(string(ch)+", only in hand", rest, ch, 1))
		}
		findings = append(findings, r.ready("notify."+string(ch), 0))
	}
	for _, n := range c.all {
		fates = append(fates, r.fate(n, notify.Push), r.fate(n, notify.Email))
	}
	findings = append(findings, r.elsewhere("notify.push", "notify.email"))
	v := judged(r, findings, fates).about(c.victim.ID)
	v.Want = want.Outcome
	v.Bug, v.Fixed = want.Outcome != Once, want.Outcome == Once
	v.Why = "all that was in hand was redelivered, and of that only what was in a send was " + often(want.Accepted)
	return v
}
