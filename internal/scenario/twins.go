package scenario

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
	"notifylab/internal/worker"
)

// Two copies of one notification, as a producer makes them that publishes again
// what was not confirmed. The worker with the first is stopped under its lease, so
// long that the other copy's worker has the record when it wakes. See
// [predictTwins].

func twinsAt(point worker.Point, s Scenario) Scenario {
	s.channels = []notify.Channel{notify.Push}
	s.play = playClaimedTwin
	if point == worker.MidSend {
		s.play = playRefusedTwin
	}
	s.judge = func(c cast, r *Record) Verdict { return judgeTwins(c, r, point) }
	return s
}

// playClaimedTwin wakes the first when the other has sent. Its heartbeat is so slow
// that the broker has not missed it: its session lives, and it may claim again.
func playClaimedTwin(ctx context.Context, s *stage) error {
	w := watch{heartbeat: time.Minute, sendTimeout: time.Second}
	victim, behind := s.notification(1, "7", s.text()), s.behind(2, "8")
	first, err := s.stopped(ctx, worker.AfterClaim, w, victim, post{victim, notify.Push, ""}, post{behind, notify.Push, ""})
	if err != nil {
		return err
	}
	if _, err := s.worker(ctx, notify.Push, s.laterFlags()...); err != nil {
		return err
	}
	if err := s.await(ctx, event.Acked, victim.ID, notify.Push); err != nil {
		return err
	}
	if err := first.Signal(unix.SIGCONT); err != nil {
		return err
	}
	if err := s.awaitEnds(ctx, notify.Push, append(s.beside, victim)...); err != nil {
		return err
	}
	return s.awaitSettled(ctx, behind.ID, notify.Push)
}

// slowSend is how long the provider takes for the second's send: enough for whoever
// waits to look at the record some ten times, and for the first to wake and say what it
// found; less than the second waits.
const slowSend = 3500 * time.Millisecond

// playRefusedTwin wakes the first, which was refused and has not read it, when a
// second is sending and a third, with the redelivered first copy, waits for its
// record.
func playRefusedTwin(ctx context.Context, s *stage) error {
	victim, behind := s.notification(1, "7", s.text()), s.behind(2, "8")
	this := provider.Target{ID: victim.ID}
	w := watch{heartbeat: time.Second, sendTimeout: 4 * time.Second, faults: provider.Faults{Refuse: []provider.Refusal{{Target: this, Status: 503}}}}
	first, err := s.stopped(ctx, worker.MidSend, w, victim, post{victim, notify.Push, ""}, post{behind, notify.Push, ""})
	if err != nil {
		return err
	}
	s.provider.SetFaults(provider.Faults{Delay: []provider.Delay{{Target: this, For: slowSend}}})
	for range 2 {
		if _, err := s.worker(ctx, notify.Push, s.laterFlags()...); err != nil {
			return err
		}
	}
	_, err = s.history.Await(ctx, func(e event.Event) bool {
		return e.Kind == event.LeaseBusy && e.ID == victim.ID && e.Owner != first.Name()
	})
	if err != nil {
		return never{"nobody waited for the second's record", s.reason(victim.ID, notify.Push), context.Cause(ctx)}
	}
	if err := s.wake(ctx, first); err != nil {
		return err
	}
	if err := s.awaitEnds(ctx, notify.Push, append(s.beside, victim)...); err != nil {
		return err
	}
	return s.awaitSettled(ctx, behind.ID, notify.Push)
}

func judgeTwins(c cast, r *Record, point worker.Point) Verdict {
	want, err := Predict(c.settings, point, Twins)
	if err != nil {
		return inconclusive(r.Events, r.Elapsed, err.Error())
	}
	victim, behind := Subject{c.victim.ID, string(notify.Push)}, Subject{c.behind.ID, string(notify.Push)}
	findings := []Finding{
		r.acceptedAs(victim, want),
		r.accepted("the one behind it", behind, 1),
		r.said("worker lines", victim, want.Lines...),
		r.times("worker lines", victim, event.Stopped, 1),
		r.times("worker lines", victim, event.Sent, 1),
		r.record(victim, want.Record, retention),
	}
	if want.Redelivered { // else its session lives
		findings = append(findings, r.slept(victim, true))
	}
	findings = append(findings, r.besides(c, point, Twins)...)
	findings = append(findings, r.leftovers(c.victim, want)...)
	return judged(r, findings, []Fate{r.fate(c.victim, notify.Push), r.fate(c.behind, notify.Push)}).about(c.victim.ID).predicted(want)
}
