package scenario

import (
	"context"
	"fmt"
	"slices"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// waiters is how many notifications are published behind a slow one.
const waiters = 4

func headOfLine() Scenario {
	return Scenario{
		Name: "head-of-line", Outcome: Once, Any: true, Next: "poison",
		Tags:  []string{"slow"},
		Title: "one slow message, and those behind it",
		Shows: "a slow message holds up a worker that does one at a time",
		Help: `One notification is slow: the provider keeps its call waiting. Four others are right
behind it. The push worker does one at a time (concurrency 1), so they wait for the
slow one, however quick they are themselves. The email worker does two (concurrency 2):
the slow one takes one of its places, and the others go through the other.

Concurrency costs the order: on email the first one published is the last one sent. And
it is no cure: two slow ones hold up a worker that does two. The cures are a time-out on
each send, which there is (--send-timeout), and more places than slow messages. Mind the
prefetch, too: what a worker has prefetched behind a slow one no idle worker can have.

Works under any settings.

What to look for
  email: four SENT, and then the slow one. push: nothing, until the slow one is SENT.`,
		ByHand: `  notifylab provider --delay id=slow:4s                                     # one terminal
  notifylab worker push --provider-url http://127.0.0.1:3200 --prefetch 1 --concurrency 1   # another
  notifylab produce --channel push --id slow; notifylab produce --channel push --count 4    # a third
  # SENT for slow after 4 s, and only then for the others; with --prefetch 2 --concurrency 2
  # the others are SENT at once`,
		channels: notify.Channels(),
		play:     playHeadOfLine,
		judge:    judgeHeadOfLine,
	}
}

func playHeadOfLine(ctx context.Context, s *stage) error {
	if _, err := s.worker(ctx, notify.Push, patient()...); err != nil {
		return err
	}
	if _, err := s.worker(ctx, notify.Email, append(patient(), "--prefetch", "2", "--concurrency", "2")...); err != nil {
		return err
	}
	slow := s.notification(1, "7", s.text())
	posts := on(slow, notify.Channels()...)
	for i := range waiters {
		posts = append(posts, on(s.behind(2+i, fmt.Sprint(8+i)), notify.Channels()...)...)
	}
	release := s.hold(slow.ID)
	if err := s.publish(ctx, posts...); err != nil {
		return err
	}
	for _, c := range notify.Channels() {
		if err := s.awaitHeld(ctx, 1, slow.ID, c); err != nil {
			return err
		}
	}
	quick := s.cast().all[1:]
	for _, n := range quick {
		if err := s.awaitSettled(ctx, n.ID, notify.Email); err != nil {
			return err
		}
	}
	for _, c := range notify.Channels() {
		through := 0
		for _, n := range quick {
			through += s.provider.Accepted(n.ID, c)
		}
		s.note(slow, c, through, fmt.Sprintf("%s: the slow one is held, %d of the %d behind it are through", c, through, waiters))
	}
	release()
	for _, n := range s.cast().all {
		for _, c := range notify.Channels() {
			if err := s.awaitSettled(ctx, n.ID, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func judgeHeadOfLine(c cast, r *Record) Verdict {
	slow := func(ch notify.Channel) Subject { return subject(c.victim, ch) }
	findings := []Finding{
		r.eachAccepted("push", c.all, notify.Push, 1),
		r.eachAccepted("email", c.all, notify.Email, 1),
		r.eachSent(c.all, notify.Push),
		r.eachSent(c.all, notify.Email),
		r.noted("email, the slow one held", slow(notify.Email), len(c.all)-1, "accepted"),
		r.noted("push, the slow one held", slow(notify.Push), 0, "accepted"),
		r.overtook("provider, email, two at a time", slow(notify.Email), c.all[1:], true),
		r.overtook("provider, push, one at a time", slow(notify.Push), c.all[1:], false),
		r.ready("notify.push", 0),
		r.ready("notify.email", 0),
		r.elsewhere("notify.push", "notify.email"),
	}
	var fates []Fate
	for _, n := range c.all {
		fates = append(fates, r.fate(n, notify.Push), r.fate(n, notify.Email))
	}
	v := judged(r, findings, fates).about(c.victim.ID)
	v.Want, v.Why = Once, "all were sent once: behind the slow one where one is done at a time, past it where two are"
	return v
}

// overtook checks which of some others the provider accepted before a slow one: all of
// them, or none, which were accepted after it.
func (r *Record) overtook(what string, slow Subject, others []notify.Notification, all bool) Finding {
	place := func(id string) int {
		return slices.IndexFunc(r.Events, func(e event.Event) bool { return e.Kind == event.Accepted && about(e, Subject{id, slow.Channel}) })
	}
	so := "before the slow one"
	if !all {
		so = "after the slow one"
	}
	at := place(slow.ID)
	f := each(what, so, others, func(n notify.Notification) bool {
		return at >= 0 && place(n.ID) >= 0 && (place(n.ID) < at) == all
	})
	f.IDs = append(f.IDs, slow.ID)
	return f
}
