package scenario

import (
	"context"
	"fmt"
	"os"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/servers"
)

func brokerAlarm() Scenario {
	return Scenario{
		Name: "broker-alarm", Outcome: Parked, Harms: true, Any: true,
		Tags:     []string{"servers", "parked"},
		Title:    "RabbitMQ is low on memory, and holds publishers back",
		Shows:    "an alarm holds copies back until it ends, but no acks",
		Settings: event.Settings{Idempotency: true, ClaimLease: true},
		Help: `RabbitMQ raises an alarm when memory or disk run low. It reads nothing more from a
connection that publishes, and says so, once. Three things follow:

  A worker takes, sends and acks as before: its copies (retries, dead letters) have a
  connection of their own, or they would hold its acks back.
  A copy waits, and its message stays unacked: COPY WAITING. The provider isn't called
  again for it, and the session goes on however long the alarm lasts.
  A producer has no confirm in time. That is not a failure: what it had written is
  published when the alarm ends. Unconfirmed isn't unpublished.

User 999's push is refused each time, so it needs copies. Works under any settings.

What to look for
  COPY WAITING for it, SENT for the one behind it during the alarm, no DISCONNECTED; after
  the alarm RETRY, DEAD-LETTER once, and SENT for what was never confirmed.`,
		ByHand: `  docker compose up -d --wait rabbitmq redis                # one terminal
  docker compose exec rabbitmq rabbitmqctl set_vm_memory_high_watermark 0.0000001
  notifylab supervise push=1                                # another
  notifylab produce --channel push                          # it finds out: perhaps confirmed, then unknown
  docker compose exec rabbitmq rabbitmqctl set_vm_memory_high_watermark 0.4`,
		channels: []notify.Channel{notify.Push},
		play:     playBrokerAlarm,
		judge:    judgeBrokerAlarm,
	}
}

const (
	// copyPatience is the worker's publish time-out, and producerPatience, which
	// begins when a copy waits already, is longer: by the end of it a worker that
	// did not know of the alarm would have given its session up.
	copyPatience     = time.Second
	producerPatience = 2 * time.Second
)

func playBrokerAlarm(ctx context.Context, s *stage) error {
	victim, behind := s.notification(1, "999", s.text()), s.behind(2, "8")
	if err := s.publish(ctx, append(on(victim, notify.Push), on(behind, notify.Push)...)...); err != nil {
		return err
	}
	lift, err := s.raiseAlarm(ctx)
	if err != nil {
		return err
	}
	// Concurrency 1: a copy that waits holds no handler.
	if _, err := s.worker(ctx, notify.Push, "--prefetch", "4", "--publish-timeout", copyPatience.String()); err != nil {
		return err
	}
	lives, err := s.awaitAlarmed(ctx, victim)
	if err == nil && lives {
		err = s.during(ctx, victim, behind)
	}
	if err != nil {
		return err
	}
	if err := lift(ctx); err != nil {
		return err
	}
	for _, n := range s.cast().all[1:] {
		if err := s.awaitSettled(ctx, n.ID, notify.Push); err != nil {
			return err
		}
	}
	return s.await(ctx, event.DeadLetter, victim.ID, notify.Push)
}

// awaitAlarmed waits until the worker has met the alarm: it says that a copy waits,
// or gives its session up, and then there is nothing more to be seen.
func (s *stage) awaitAlarmed(ctx context.Context, victim notify.Notification) (lives bool, err error) {
	e, err := s.history.Await(ctx, func(e event.Event) bool {
		return e.Kind == event.CopyWaiting && e.ID == victim.ID || e.Kind == event.Disconnect
	})
	if err != nil {
		return false, never{"no copy had to wait", s.reason(victim.ID, notify.Push), context.Cause(ctx)}
	}
	return e.Kind == event.CopyWaiting, nil
}

// during is what happens while a copy waits: the one behind it is sent and acked,
// and a producer waits for a confirm in vain.
func (s *stage) during(ctx context.Context, victim, behind notify.Notification) error {
	if err := s.awaitSettled(ctx, behind.ID, notify.Push); err != nil {
		return err
	}
	if err := s.publishUntilHeld(ctx, 3); err != nil {
		return err
	}
	beyond := s.provider.Refused(victim.ID, notify.Push) - s.attempts(victim.ID)
	s.note(victim, notify.Push, beyond, "the copy waits, and its message is neither acked nor sent again")
	return nil
}

// attempts returns at which attempt a worker is with a notification.
func (s *stage) attempts(id string) int {
	n := 0
	for _, e := range s.history.All() {
		if e.Kind == event.Received && e.ID == id && !e.Redelivered {
			n = e.Attempt
		}
	}
	return n
}

// publishUntilHeld publishes notifications, from the n-th on, until one is held
// back. RabbitMQ takes one more from each connection that it has not yet told.
func (s *stage) publishUntilHeld(ctx context.Context, n int) error {
	for ; ; n++ {
		m := s.notification(n, "7", fmt.Sprintf("published during the alarm, number %d", n-2))
		fate, err := s.offer(ctx, m, notify.Push)
		if err != nil || fate == broker.Unknown {
			return err
		}
	}
}

// offer publishes a message as a producer does who waits for a confirm for so
// long.
func (s *stage) offer(ctx context.Context, n notify.Notification, c notify.Channel) (broker.Fate, error) {
	queued := s.queue(Subject{n.ID, string(c)})
	defer close(queued)
	r, err := s.publisher.Start(ctx, broker.NewMessage(s.topology.Names, c, n, ""))
	if err != nil {
		return broker.Unknown, fmt.Errorf("publish %s on %s: %w", n.ID, c, err)
	}
	limited, cancel := context.WithTimeout(ctx, producerPatience)
	defer cancel()
	fate, why := r.Wait(limited)
	if ctx.Err() != nil {
		return fate, never{what: fmt.Sprintf("%s was neither confirmed nor held back", n.ID), err: context.Cause(ctx)}
	}
	e := event.Event{
		Time: time.Now(), Kind: event.Queued, Source: "producer", PID: os.Getpid(),
		ID: n.ID, Channel: string(c), User: n.User, Queue: s.topology.Work(c),
	}
	switch fate {
	case broker.Confirmed:
	case broker.Unknown:
		e.Kind, e.Reason = event.Unconfirmed, why.Error()
	default:
		return fate, fmt.Errorf("publish %s on %s: %v: %w", n.ID, c, fate, why)
	}
	s.emit(e)
	return fate, nil
}

func judgeBrokerAlarm(c cast, r *Record) Verdict {
	victim, behind := Subject{c.victim.ID, string(notify.Push)}, Subject{c.behind.ID, string(notify.Push)}
	isOver := func(e event.Event) bool { return ofServer(e, servers.RabbitMQ) && e.State == running }
	of := func(s Subject, kind event.Kind) func(event.Event) bool {
		return func(e event.Event) bool { return e.Kind == kind && about(e, s) }
	}
	findings := []Finding{
		r.serverWas(servers.RabbitMQ, c.victim.ID, alarmed, running),
		r.lived("push-worker-1", c.victim.ID, event.Ready),
		r.said("worker lines", victim, event.CopyWaiting, event.Note, event.DeadLetter),
		r.backoffs(victim, 500, 1000),
		r.noted("provider, "+c.victim.ID+", meanwhile", victim, 0, "calls beyond its attempts"),
		r.refusals(c.victim.ID, victim, 3),
		r.accepted(c.victim.ID, victim, 0),
		r.accepted("the one behind it", behind, 1),
		r.order("the one behind it acked, and the end of the alarm", of(behind, event.Acked), isOver, c.behind.ID),
	}
	fates := []Fate{r.fate(c.victim, notify.Push), r.fate(c.behind, notify.Push)}
	for i, n := range c.all[min(2, len(c.all)):] {
		s := Subject{n.ID, string(notify.Push)}
		kind := event.Queued
		if 2+i == len(c.all)-1 {
			kind = event.Unconfirmed
			findings = append(findings, r.order("the producer's time-out, and the end of the alarm", of(s, kind), isOver, n.ID))
		}
		findings = append(findings,
			r.times("producer, during the alarm", s, kind, 1),
			r.accepted(fmt.Sprintf("during the alarm, number %d", i+1), s, 1))
		fates = append(fates, r.fate(n, notify.Push))
	}
	findings = append(findings,
		r.record(victim, NoRecord, 0),
		r.ready("push.dlq", 1),
		r.parkedAsPublished(c.victim),
		r.parkedAfter(c.victim, 3),
		r.ready("notify.push", 0),
		r.elsewhere("push.dlq", "notify.push"))
	v := judged(r, findings, fates).about(c.victim.ID)
	v.Want, v.Why = Parked, "its copies waited for the end of the alarm, and nothing else did; what was never confirmed was published all the same"
	return v
}
