package scenario

import (
	"context"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/servers"
)

func redisOutage() Scenario {
	return Scenario{
		Name: "redis-outage", Outcome: Once, Next: "redis-amnesia", Harms: true, Any: true,
		Tags:     []string{"servers"},
		Title:    "Redis is killed in the middle of a send, and comes back",
		Shows:    "Redis dies in a send and comes back: none lost or doubled",
		Settings: event.Settings{Idempotency: true, ClaimLease: true},
		Help: `Redis is killed (SIGKILL) while the provider has a notification in hand; another one
arrives while it is away. What was claimed is sent, and marked as done when Redis answers
again: until then it is not acked. What was not yet claimed is neither sent nor acked: it
waits. Redis comes back with its append-only file, and with it the records.

Nothing is lost or doubled, for as long as Redis is back within the lease, or the broker
stays: a message that nobody else can be handed needs no lease. Comes out alike under any
settings: they are read from Redis, too.

What to look for
  DISCONNECTED Redis does not answer, SENT for the first one, RECONNECTED, and only then
  DONE for it and SENT for the second.`,
		ByHand: `  docker compose up -d --wait rabbitmq redis        # one terminal
  notifylab settings set idempotency=on claim-lease=on && notifylab supervise push=1
  docker compose kill redis                         # another
  notifylab produce --channel push                  # DISCONNECTED Redis does not answer; nothing is sent
  docker compose up -d --wait redis                 # RECONNECTED, CLAIMED, SENT, DONE`,
		channels: []notify.Channel{notify.Push},
		play:     playRedisOutage,
		judge:    judgeRedisOutage,
	}
}

func playRedisOutage(ctx context.Context, s *stage) error {
	if _, err := s.worker(ctx, notify.Push, "--prefetch", "2", "--concurrency", "2"); err != nil {
		return err
	}
	victim, late := s.notification(1, "7", s.text()), s.notification(2, "8", "published while Redis was away")
	release := s.hold(victim.ID)
	if err := s.publish(ctx, on(victim, notify.Push)...); err != nil {
		return err
	}
	if err := s.awaitHeld(ctx, 1, victim.ID, notify.Push); err != nil {
		return err
	}
	from := s.history.Len()
	if err := s.killServer(ctx, servers.Redis); err != nil {
		return err
	}
	if err := s.publish(ctx, on(late, notify.Push)...); err != nil {
		return err
	}
	if err := s.awaitWorker(ctx, from, event.Disconnect, notify.Push); err != nil {
		return err
	}
	release()
	if err := s.await(ctx, event.Sent, victim.ID, notify.Push); err != nil {
		return err
	}
	n := s.provider.Accepted(late.ID, notify.Push)
	s.note(late, notify.Push, n, "the late one was received and is not sent: it can't be claimed")
	from = s.history.Len()
	if err := s.startServer(ctx, servers.Redis); err != nil {
		return err
	}
	if err := s.awaitWorker(ctx, from, event.Reconnected, notify.Push); err != nil {
		return err
	}
	if err := s.await(ctx, event.Acked, victim.ID, notify.Push); err != nil {
		return err
	}
	return s.awaitSettled(ctx, late.ID, notify.Push)
}

func judgeRedisOutage(c cast, r *Record) Verdict {
	victim, late := Subject{c.victim.ID, string(notify.Push)}, Subject{c.behind.ID, string(notify.Push)}
	lines, record := []event.Kind{event.Sent, event.Acked}, NoRecord
	if c.settings.Idempotency {
		record = Claimed
		if c.settings.ClaimLease {
			lines, record = []event.Kind{event.Sent, event.Done, event.Acked}, Done
		}
	}
	isBack := func(e event.Event) bool { return e.Kind == event.Reconnected }
	of := func(s Subject, kind event.Kind) func(event.Event) bool {
		return func(e event.Event) bool { return e.Kind == kind && about(e, s) }
	}
	findings := []Finding{
		r.serverWas(servers.Redis, c.victim.ID, killed, running),
		r.lived("push-worker-1", c.victim.ID, event.Ready, event.Disconnect, event.Reconnected),
		r.accepted(c.victim.ID, victim, 1),
		r.accepted("the late one", late, 1),
		r.noted("provider, the late one, Redis away", late, 0, "accepted"),
		r.said("worker lines", victim, lines...),
		r.times("worker lines", victim, event.Sent, 1),
		r.order("the send, and Redis's return", of(victim, event.Sent), isBack, c.victim.ID),
		r.order("Redis's return, and the late one", isBack, of(late, event.Sent), c.behind.ID),
	}
	if record == Done {
		findings = append(findings, r.order("Redis's return, and done", isBack, of(victim, event.Done), c.victim.ID))
	}
	findings = append(findings,
		r.record(victim, record, retention),
		r.ready("notify.push", 0),
		r.elsewhere("notify.push"))
	v := judged(r, findings, []Fate{r.fate(c.victim, notify.Push), r.fate(c.behind, notify.Push)})
	v.Want, v.Why = Once, "what was claimed was sent and marked when Redis came back; what was not waited"
	return v
}
