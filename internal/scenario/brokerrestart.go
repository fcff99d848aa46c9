package scenario

import (
	"context"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/servers"
)

func brokerRestart() Scenario {
	return Scenario{
		Name: "broker-restart", Outcome: Once, Next: "redis-outage", Harms: true,
		Tags:     []string{"servers", "duplicate"},
		Title:    "RabbitMQ is stopped in the middle of a send, and started again",
		Shows:    "RabbitMQ restarts in a send: redelivered, dropped as done",
		Settings: event.Settings{Idempotency: true, ClaimLease: true},
		Help: `RabbitMQ is stopped, in its own orderly way, while the provider has a notification in
hand and another one waits in the queue. The worker lives on: its send comes to its end
and is recorded as done, but there is no session to ack on. Durable queues and persistent
messages survive; the broker starts again, the worker opens another session and is handed
the first one once more. The record says that it is done, so it is dropped. The one that
waited is sent.

Without a record nothing remembers the send: twice (--idempotency off), unless the
provider knows the key (--provider-key on).

What to look for
  DISCONNECTED, then SENT and DONE for the first one all the same, READY again with no
  RESTART in between, RECEIVED (redelivered), DUPLICATE DROPPED.`,
		ByHand: `  docker compose up -d --wait rabbitmq redis                            # one terminal
  notifylab provider --delay push=20s                                  # another
  notifylab supervise push=1 -- --provider-url http://127.0.0.1:3200 --send-timeout 25s --lease 30s --idempotency on --claim-lease on
  notifylab produce --channel push && docker compose restart rabbitmq  # the first terminal
  # DISCONNECTED, SENT, DONE, READY, RECEIVED (redelivered), DUPLICATE DROPPED`,
		channels: []notify.Channel{notify.Push},
		play:     playBrokerRestart,
		judge:    judgeBrokerRestart,
	}
}

func playBrokerRestart(ctx context.Context, s *stage) error {
	if _, err := s.worker(ctx, notify.Push); err != nil {
		return err
	}
	victim, behind := s.notification(1, "7", s.text()), s.behind(2, "8")
	release := s.hold(victim.ID)
	if err := s.publish(ctx, append(on(victim, notify.Push), on(behind, notify.Push)...)...); err != nil {
		return err
	}
	if err := s.awaitHeld(ctx, 1, victim.ID, notify.Push); err != nil {
		return err
	}
	from := s.history.Len()
	if err := s.stopServer(ctx, servers.RabbitMQ); err != nil {
		return err
	}
	if err := s.awaitWorker(ctx, from, event.Disconnect, notify.Push); err != nil {
		return err
	}
	release()
	if err := s.await(ctx, event.Dropped, victim.ID, notify.Push); err != nil {
		return err
	}
	from = s.history.Len()
	if err := s.startServer(ctx, servers.RabbitMQ); err != nil {
		return err
	}
	if err := s.awaitWorker(ctx, from, event.Ready, notify.Push); err != nil {
		return err
	}
	if err := s.await(ctx, event.Acked, victim.ID, notify.Push); err != nil {
		return err
	}
	return s.awaitSettled(ctx, behind.ID, notify.Push)
}

func judgeBrokerRestart(c cast, r *Record) Verdict {
	victim, behind := Subject{c.victim.ID, string(notify.Push)}, Subject{c.behind.ID, string(notify.Push)}
	before, record, after := []event.Kind{event.Sent}, NoRecord, []event.Kind{event.Received, event.Sent}
	accepted, want, why := 2, Twice, "sent, not acked, redelivered and sent again: nothing remembered it"
	switch {
	case c.settings.Idempotency:
		after, record = []event.Kind{event.Received, event.DuplicateDropped}, Claimed
		accepted, want, why = 1, Once, "the send outlived its session, and the redelivery found its record and was dropped"
		if c.settings.ClaimLease {
			before, record = append(before, event.Done), Done
		}
	case c.settings.ProviderKey:
		accepted, want, why = 1, Once, "the provider knew the second attempt by its key"
	}
	again := func(e event.Event) bool { return e.Kind == event.Received && about(e, victim) && e.Redelivered }
	isBack := func(e event.Event) bool { return ofServer(e, servers.RabbitMQ) && e.State == stopped }
	findings := []Finding{
		r.serverWas(servers.RabbitMQ, c.victim.ID, stopped, running),
		r.lived("push-worker-1", c.victim.ID, event.Ready, event.Disconnect, event.Ready),
		r.accepted(c.victim.ID, victim, accepted),
		r.accepted("the one that waited", behind, 1),
		r.said("worker lines", victim, append(append(before, event.Dropped), after...)...),
		r.times("worker lines", victim, event.Sent, count(append(before, after...), event.Sent)),
		r.order("the stop, and the redelivery", isBack, again, c.victim.ID),
		r.record(victim, record, retention),
		r.ready("notify.push", 0),
		r.elsewhere("notify.push"),
	}
	v := judged(r, findings, []Fate{r.fate(c.victim, notify.Push), r.fate(c.behind, notify.Push)}).about(c.victim.ID)
	v.Want, v.Why, v.Bug = want, why, want != Once
	return v
}
