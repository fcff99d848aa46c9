package scenario

import (
	"context"
	"fmt"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
)

// queued is how many notifications the fifo has.
const queuedEvents = 5

func fifo() Scenario {
	return Scenario{
		Name: "fifo", Mode: "default", Outcome: Once, Next: "ack-timing",
		Tags:  []string{"queue"},
		Title: "a queue: one end for the producer, one for the worker",
		Shows: "the producer only appends; one worker drains in order",
		Help: `Five events, e0 to e4, are put into a queue, and one worker takes them from the other
end at its own pace. The provider holds e0: the producer is done all the same, and four
wait. Then the worker drains them, the oldest first.

What to look for
  QUEUED five times before the second SENT; "notify.push holds 4"; SENT in the order in
  which they were queued; and in the end the queue is empty.`,
		ByHand: `  notifylab provider --delay 300ms                                                  # one terminal: a slow provider
  notifylab worker push --prefetch 1 --concurrency 1 --provider-url http://127.0.0.1:3200   # another: one worker
  notifylab produce --channel push --count 5                                        # a third: back at once
  notifylab queues -w                                                               # 4, 3, 2, 1, 0`,
		channels: []notify.Channel{notify.Push},
		play:     playFIFO,
		judge:    judgeFIFO,
	}
}

func playFIFO(ctx context.Context, s *stage) error {
	if _, err := s.worker(ctx, notify.Push); err != nil {
		return err
	}
	var posts []post
	for i := range queuedEvents {
		posts = append(posts, post{s.notification(i+1, fmt.Sprint(i), fmt.Sprintf("e%d", i)), notify.Push, ""})
	}
	first, last := posts[0].Notification, posts[queuedEvents-1].Notification
	s.provider.SetFaults(provider.Faults{Gate: []provider.Gate{{Hold: first.ID, Until: "the-release"}}})
	if err := s.publish(ctx, posts...); err != nil {
		return err
	}
	err := s.provider.Await(ctx, func(l *provider.Ledger) bool { return l.Held(first.ID, notify.Push) > 0 })
	if err != nil {
		return never{"the provider was never asked for e0", s.reason(first.ID, notify.Push), context.Cause(ctx)}
	}
	const waiting = queuedEvents - 1
	if err := s.awaitReady(ctx, s.topology.Work(notify.Push), waiting); err != nil {
		return err
	}
	s.note(first, notify.Push, waiting, fmt.Sprintf("notify.push holds %d: the producer is done, the worker is at e0", waiting))
	s.provider.SetFaults(provider.Faults{}) // the gate opens
	for _, p := range posts[:queuedEvents-1] {
		if err := s.awaitAccepted(ctx, p.ID, notify.Push); err != nil {
			return err
		}
	}
	return s.awaitSettled(ctx, last.ID, notify.Push)
}

func judgeFIFO(c cast, r *Record) Verdict {
	var ids []string
	var fates []Fate
	for _, n := range c.all {
		ids = append(ids, n.ID)
		fates = append(fates, r.fate(n, notify.Push))
	}
	is := func(kind event.Kind, n int) func(event.Event) bool {
		return func(e event.Event) bool { return e.Kind == kind && e.ID == c.all[n].ID }
	}
	last, second := c.all[len(c.all)-1], c.all[1]
	v := judged(r, []Finding{
		r.eachTold("each event", ids, told, 1),
		r.sequence("in the order of the queue", ids, ids),
		r.noted("notify.push, e0 in the worker's hand", Subject{c.all[0].ID, told}, queuedEvents-1, "messages"),
		r.order("producer done, the second handled", is(event.Queued, len(c.all)-1), is(event.Sent, 1), last.ID, second.ID),
		r.ready("notify.push", 0),
		r.elsewhere("notify.push"),
	}, fates)
	return v.as(Once, "appended at one end, taken from the other, at the worker's own pace and in order")
}
