package scenario

import (
	"context"
	"fmt"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
)

// slowness is how long the provider takes for email in the third act. A machine that
// stood still for that needs the act again, and longer.
const slowness = 2 * time.Second

func fanOut() Scenario {
	return Scenario{
		Name: "fan-out", Mode: "default", Lesson: 1, Outcome: Once, Next: "crash", Any: true,
		Tags:  []string{"lesson", "slow"},
		Title: "one event, two channels",
		Shows: "one event, two channels; a dead one blocks nobody",
		Help: `The producer publishes one event as one durable message per channel queue: notify.push
and notify.email. Each channel has workers of its own, so a slow or dead one never
blocks the other. The producer never talks to a worker.

Three acts: both workers run; the email worker is down; the provider takes 2 s for
email. Works under any settings.

What to look for
  SENT push and SENT email with the same id. In the second act push is SENT all the
  same, the email waits in notify.email and is SENT when its worker comes.`,
		ByHand: `  notifylab provider --delay email=2s                                   # one terminal: slow for email
  notifylab supervise push=1 -- --provider-url http://127.0.0.1:3200    # another: no email worker
  notifylab produce                                                     # a third: SENT push, at once
  notifylab supervise email=1 -- --provider-url http://127.0.0.1:3200   # and here: SENT email, 2 s later`,
		channels: notify.Channels(),
		play:     playFanOut,
		judge:    judgeFanOut,
	}
}

func playFanOut(ctx context.Context, s *stage) error {
	both := notify.Channels()
	if _, err := s.worker(ctx, notify.Push); err != nil {
		return err
	}
	email, err := s.worker(ctx, notify.Email)
	if err != nil {
		return err
	}
	first := s.notification(1, "7", s.text())
	if err := s.send(ctx, first, both...); err != nil {
		return err
	}
	if err := email.Stop(ctx); err != nil {
		return err
	}
	if err := playEmailDown(ctx, s); err != nil {
		return err
	}
	for i, takes := range []time.Duration{slowness, 2 * slowness, 2 * slowness} {
		if held, err := playEmailSlow(ctx, s, 3+i, takes); held || err != nil {
			return err
		}
	}
	return nil
}

// playEmailDown is the second act: nobody consumes notify.email, until its worker
// comes again.
func playEmailDown(ctx context.Context, s *stage) error {
	if _, err := s.settled(ctx, s.topology.Work(notify.Email)); err != nil {
		return err
	}
	second := s.notification(2, "7", "sent while the email worker was down")
	if err := s.publish(ctx, on(second, notify.Channels()...)...); err != nil {
		return err
	}
	if err := s.awaitSettled(ctx, second.ID, notify.Push); err != nil {
		return err
	}
	waiting, err := s.settled(ctx, s.topology.Work(notify.Email))
	if err != nil {
		return err
	}
	s.note(second, notify.Email, waiting, fmt.Sprintf("notify.email holds %d: nobody consumes it, and push was not held up", waiting))
	if _, err := s.worker(ctx, notify.Email); err != nil {
		return err
	}
	return s.awaitSettled(ctx, second.ID, notify.Email)
}

// playEmailSlow is the third act. It says whether the provider still held the email when
// the push was settled.
func playEmailSlow(ctx context.Context, s *stage, number int, takes time.Duration) (still bool, err error) {
	s.provider.SetFaults(provider.Faults{Delay: []provider.Delay{{Target: provider.Target{Channel: notify.Email}, For: takes}}})
	third := s.notification(number, "7", "sent while the provider was slow for email")
	if err := s.publish(ctx, on(third, notify.Channels()...)...); err != nil {
		return false, err
	}
	if err := s.awaitSettled(ctx, third.ID, notify.Push); err != nil {
		return false, err
	}
	held := 0
	err = s.provider.Await(ctx, func(l *provider.Ledger) bool {
		held = l.Held(third.ID, notify.Email)
		return held+l.Accepted(third.ID, notify.Email) > 0
	})
	if err != nil {
		return false, never{"the provider was never asked for the email", s.reason(third.ID, notify.Email), context.Cause(ctx)}
	}
	s.note(third, notify.Email, held, fmt.Sprintf("the provider holds %d email, and push was not held up", held))
	return held > 0, s.awaitSettled(ctx, third.ID, notify.Email)
}

// send publishes a notification and waits until it is settled on all channels.
func (s *stage) send(ctx context.Context, n notify.Notification, channels ...notify.Channel) error {
	if err := s.publish(ctx, on(n, channels...)...); err != nil {
		return err
	}
	for _, c := range channels {
		if err := s.awaitSettled(ctx, n.ID, c); err != nil {
			return err
		}
	}
	return nil
}

func judgeFanOut(c cast, r *Record) Verdict {
	const down, slow = 1, 2 // acts; the last may have been played again
	acts := []string{"both workers run", "the email worker is down", "the provider is slow for email"}
	var findings []Finding
	var fates []Fate
	for i, n := range c.all {
		for _, ch := range notify.Channels() {
			findings = append(findings, r.accepted(fmt.Sprintf("%s, %s", ch, acts[min(i, slow)]), Subject{n.ID, string(ch)}, 1))
			fates = append(fates, r.fate(n, ch))
		}
	}
	for _, ch := range notify.Channels() {
		findings = append(findings, r.eachSent(c.all, ch))
	}
	waited, last := c.all[down].ID, c.all[len(c.all)-1].ID
	first := func(kind event.Kind, id string, ch notify.Channel) func(event.Event) bool {
		return func(e event.Event) bool { return e.Kind == kind && about(e, Subject{id, string(ch)}) }
	}
	findings = append(findings,
		r.noted("notify.email, its worker down", Subject{waited, string(notify.Email)}, 1, "messages"),
		r.order("push, before the waiting email", first(event.Sent, waited, notify.Push), first(event.Received, waited, notify.Email), waited),
		r.noted("provider, the slow email, push sent", Subject{last, string(notify.Email)}, 1, "held"),
		r.order("push, before the slow email", first(event.Sent, last, notify.Push), first(event.Sent, last, notify.Email), last),
		r.ready("notify.push", 0),
		r.ready("notify.email", 0),
		r.elsewhere("notify.push", "notify.email"))
	v := judged(r, findings, fates)
	v.Want, v.Why = Once, "each channel has a queue of its own: one event, once on each, and nobody waited for the other"
	return v
}

// eachSent checks that the workers of a channel said of each notification that they
// had sent it, once.
func (r *Record) eachSent(all []notify.Notification, c notify.Channel) Finding {
	return each(string(c)+" worker lines", "sent", all, func(n notify.Notification) bool { return r.count(subject(n, c), event.Sent) == 1 })
}
