package scenario

import (
	"context"
	"fmt"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// copies is how often the producer publishes the same notification.
const copies = 5

func duplicatePublish() Scenario {
	return Scenario{
		Name: "duplicate-publish", Outcome: Once, Next: "live-takeover",
		Tags:     []string{"duplicate"},
		Title:    "five copies of one notification, all in hand at once",
		Shows:    "published five times: one is sent, four are dropped",
		Settings: event.Settings{Idempotency: true, ClaimLease: true},
		Help: `A producer that had no answer publishes again, and a person presses the button twice:
the same notification is in the queue five times. To the broker these are five
messages, none of them redelivered, so nothing in RabbitMQ tells them apart. The
record does, by the notification's id.

The worker has all five in hand at once (prefetch 5, concurrency 5), and the provider
keeps the first call waiting until the other four have met its claim.

What to look for
  One CLAIMED, four LEASE BUSY: somebody has it and may live, so they wait, unsettled.
  Then one SENT, DONE, and four DUPLICATE DROPPED (already sent). No line says
  redelivered. With idempotency off the provider accepts all five.`,
		ByHand: `  notifylab supervise push=1 -- --idempotency on --claim-lease on            # one terminal
  for i in 1 2 3 4 5; do notifylab produce --channel push --id once; done    # another
  # SENT, DONE, and DUPLICATE DROPPED four times`,
		channels: []notify.Channel{notify.Push},
		play:     playDuplicates,
		judge:    judgeDuplicates,
	}
}

// sends is how many of so many copies of a notification are sent, none of whose
// workers dies.
func sends(s event.Settings, copies int) int {
	if s.Idempotency {
		return 1
	}
	return copies
}

// accepts is how many of those sends the provider accepts.
func accepts(s event.Settings, sends int) int {
	if s.ProviderKey {
		return min(1, sends)
	}
	return sends
}

func playDuplicates(ctx context.Context, s *stage) error {
	at := fmt.Sprint(copies)
	if _, err := s.worker(ctx, notify.Push, append(patient(), "--prefetch", at, "--concurrency", at)...); err != nil {
		return err
	}
	victim, behind := s.notification(1, "7", s.text()), s.behind(2, "8")
	release := s.hold(victim.ID)
	var posts []post
	for range copies {
		posts = append(posts, post{victim, notify.Push, ""})
	}
	if err := s.publish(ctx, append(posts, post{behind, notify.Push, ""})...); err != nil {
		return err
	}
	sent := sends(s.Settings, copies)
	if err := s.awaitHeld(ctx, sent, victim.ID, notify.Push); err != nil {
		return err
	}
	if sent < copies {
		if err := s.awaitTimes(ctx, copies-sent, met(s.Settings), victim.ID, notify.Push); err != nil {
			return err
		}
	}
	release()
	if err := s.awaitTimes(ctx, copies, event.Acked, victim.ID, notify.Push); err != nil {
		return err
	}
	return s.awaitSettled(ctx, behind.ID, notify.Push)
}

// met is what a worker says of a message whose record is another's that lives.
func met(s event.Settings) event.Kind {
	if leased(s) {
		return event.LeaseBusy
	}
	return event.DuplicateDropped
}

func judgeDuplicates(c cast, r *Record) Verdict {
	victim, behind := subject(c.victim, notify.Push), subject(c.behind, notify.Push)
	sent := sends(c.settings, copies)
	accepted := accepts(c.settings, sent)
	busy := 0
	if leased(c.settings) {
		busy = copies - sent
	}
	findings := []Finding{
		r.accepted(c.victim.ID, victim, accepted),
		r.accepted("the one behind it", behind, 1),
		r.times("worker lines", victim, event.Received, copies),
		r.redelivered("by the broker", victim, 0),
		r.times("worker lines", victim, event.LeaseBusy, busy),
		r.times("worker lines", victim, event.Sent, sent),
		r.times("worker lines", victim, event.DuplicateDropped, copies-sent),
		r.record(victim, remembered(c.settings), retention),
		r.ready("notify.push", 0),
		r.elsewhere("notify.push"),
	}
	v := judged(r, findings, []Fate{r.fate(c.victim, notify.Push), r.fate(c.behind, notify.Push)}).about(c.victim.ID)
	v.Want = outcome(accepted, false, false)
	v.Bug, v.Fixed = v.Want != Once, v.Want == Once
	switch {
	case c.settings.Idempotency:
		v.Why = "five copies, one record: one was sent, four were dropped"
	case c.settings.ProviderKey:
		v.Why = "five copies were sent, and the provider knew four of them by their key"
	default:
		v.Why = "five copies were sent: nothing tells them from five notifications"
	}
	return v
}
