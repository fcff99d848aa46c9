package scenario

import (
	"context"
	"errors"
	"net/http"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
)

func unroutable() Scenario {
	return Scenario{
		Name: "unroutable", Outcome: Once, Any: true,
		Tags:  []string{"parked"},
		Title: "a message to a queue that isn't there",
		Shows: "no such queue: the producer is told, so none is lost",
		Help: `Somebody has deleted notify.email. RabbitMQ confirms what it can't route as well, and drops
it: a confirm says that the broker is done with a message, not that anybody will get it.
Published as mandatory, as everything here is, such a message is also returned to its
producer: it gets a return and a confirm, and the return counts: RETURNED, it is nowhere.
The broker sends the return first, but a client library hands the two over separately,
and often the confirm is seen before the return. A producer that takes a confirm alone
for success has lost the message and doesn't know; the one here looks for a return first.

The push of the same event has its queue and is sent. Then an email worker starts, which
makes what is missing, the producer publishes the email again, and it is sent.

A worker's copies are published in the same way: in the second act push.dlq is gone, and
a push is refused for good. Its copy is RETURNED, so the original stays unsettled, and the
copy is tried again until the queue is there. Works under any settings.

What to look for
  RETURNED email, and QUEUED and SENT for it later. RETURNED push: no queue push.dlq, by
  the worker, and DEAD-LETTER later.`,
		ByHand: `  notifylab produce --namespace nowhere --declare=false    # RETURNED push, RETURNED email; exit status 1
  notifylab produce --namespace nowhere                     # makes them: QUEUED, QUEUED
  notifylab reset --namespace nowhere --yes`,
		channels: notify.Channels(),
		play:     playUnroutable,
		judge:    judgeUnroutable,
	}
}

func playUnroutable(ctx context.Context, s *stage) error {
	if _, err := s.worker(ctx, notify.Push); err != nil {
		return err
	}
	if err := s.conn.Delete(ctx, s.topology.Work(notify.Email)); err != nil {
		return err
	}
	first, bad := s.notification(1, "7", s.text()), s.notification(2, "8", "refused for good")
	told := s.publish(ctx, on(first, notify.Channels()...)...)
	if told != nil && !errors.Is(told, notify.ErrReturned) {
		return told
	}
	if err := s.awaitSettled(ctx, first.ID, notify.Push); err != nil || told == nil { // who isn't told has lost it
		return err
	}
	if _, err := s.worker(ctx, notify.Email, "--declare"); err != nil { // it makes its queue
		return err
	}
	if err := s.send(ctx, first, notify.Email); err != nil {
		return err
	}
	return playNoDeadLetters(ctx, s, bad)
}

// playNoDeadLetters is the second act: there is nowhere to park what is refused.
func playNoDeadLetters(ctx context.Context, s *stage, bad notify.Notification) error {
	s.provider.SetFaults(provider.Faults{Refuse: []provider.Refusal{{Target: provider.Target{ID: bad.ID}, Status: http.StatusGone}}})
	if err := s.conn.Delete(ctx, s.topology.DeadLetters(notify.Push)); err != nil {
		return err
	}
	if err := s.publish(ctx, post{bad, notify.Push, ""}); err != nil {
		return err
	}
	if err := s.await(ctx, event.Returned, bad.ID, notify.Push); err != nil {
		return err
	}
	if err := s.declare(ctx); err != nil {
		return err
	}
	return s.await(ctx, event.DeadLetter, bad.ID, notify.Push)
}

func judgeUnroutable(c cast, r *Record) Verdict {
	bad := c.all[1]
	email, parked := subject(c.victim, notify.Email), subject(bad, notify.Push)
	findings := []Finding{
		r.accepted("push", subject(c.victim, notify.Push), 1),
		r.accepted("email, published again", email, 1),
		r.said("email, its queue gone", email, event.Returned, event.Queued, event.Sent),
		r.times("email, its queue gone", email, event.Returned, 1),
		r.times("email, its queue gone", email, event.Queued, 1),
		r.times("email, its queue gone", email, event.Sent, 1),
		r.refusals(bad.ID, parked, 1),
		r.accepted(bad.ID, parked, 0),
		r.said("push.dlq gone", parked, event.Returned, event.DeadLetter),
		r.times("push.dlq gone", parked, event.DeadLetter, 1),
		r.ready("push.dlq", 1),
		r.kept(notify.Push, []notify.Notification{bad}, [][]byte{notify.Encode(bad)}, "refused, 1 attempt"),
		r.ready("notify.push", 0),
		r.ready("notify.email", 0),
		r.elsewhere("push.dlq", "notify.push", "notify.email"),
	}
	fates := []Fate{r.fate(bad, notify.Push), r.fate(c.victim, notify.Push), r.fate(c.victim, notify.Email)}
	v := judged(r, findings, fates).about(c.victim.ID)
	v.Want, v.Why = Once, "who published was told that there is no such queue, and did it again when there was one"
	return v
}
