package scenario

import (
	"context"
	"errors"
	"fmt"

	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
	"notifylab/internal/worker"
)

func redisAmnesia() Scenario {
	return Scenario{
		Name: "redis-amnesia", Outcome: Twice, Next: "broker-alarm", Harms: true,
		Tags:     []string{"servers", "kill", "duplicate"},
		Title:    "Redis forgets what was done",
		Shows:    "records gone between send and redelivery: sent again",
		Settings: event.Settings{Idempotency: true, ClaimLease: true},
		Help: `The worker sends, marks the record as done, and dies before its ack: with the record
the redelivery would be dropped. But in between Redis forgets: the records are deleted, as
a restart without an append-only file, an eviction or a FLUSHALL would. The redelivery
finds nothing and is sent again. A record is worth no more than the memory that it is in:
Redis needs an append-only file and maxmemory-policy noeviction.

The provider's key closes this, too (--provider-key on), since then the provider remembers.

What to look for
  SENT, DONE, CRASH — worker dying after send, BEFORE ack, the note that the record was
  deleted, RECEIVED (redelivered), CLAIMED, and SENT again.`,
		ByHand: `  notifylab supervise push=1 -- --idempotency on --claim-lease on      # one terminal
  notifylab produce --channel push --id a --text hello                 # another: SENT, DONE
  notifylab reset --yes                                                # Redis forgets
  notifylab produce --channel push --id a --text hello                 # not dropped as a duplicate: SENT again`,
		channels: []notify.Channel{notify.Push},
		check: func(settings event.Settings) error {
			if !settings.Idempotency {
				return errors.New("with idempotency off there is no record that could be forgotten")
			}
			return nil
		},
		play:  playRedisAmnesia,
		judge: judgeRedisAmnesia,
	}
}

func playRedisAmnesia(ctx context.Context, s *stage) error {
	if _, err := s.worker(ctx, notify.Push); err != nil {
		return err
	}
	victim, behind := s.notification(1, "7", s.text()), s.behind(2, "8")
	s.onCrash = func(ctx context.Context) error {
		n, err := idem.ForgetRecords(ctx, s.redis, s.Namespace)
		if err == nil {
			s.note(victim, notify.Push, n, fmt.Sprintf("Redis forgets: %s deleted", quantity(n, "records")))
		}
		return err
	}
	if err := s.publish(ctx, post{victim, notify.Push, worker.BeforeAck}, post{behind, notify.Push, ""}); err != nil {
		return err
	}
	if err := s.awaitPoint(ctx, event.Crash, victim, behind, notify.Push, worker.BeforeAck); err != nil {
		return err
	}
	if err := s.await(ctx, event.Acked, victim.ID, notify.Push); err != nil {
		return err
	}
	return s.awaitSettled(ctx, behind.ID, notify.Push)
}

func judgeRedisAmnesia(c cast, r *Record) Verdict {
	victim, behind := Subject{c.victim.ID, string(notify.Push)}, Subject{c.behind.ID, string(notify.Push)}
	once, state := []event.Kind{event.Claimed, event.Sent}, Claimed
	if c.settings.ClaimLease {
		once, state = append(once, event.Done), Done
	}
	lines := append(append([]event.Kind{}, once...), event.Crash, event.Note, event.Received)
	accepted, want, why := 2, Twice, "sent and remembered, but Redis forgot it before the redelivery"
	if c.settings.ProviderKey {
		accepted, want, why = 1, Once, "Redis forgot it before the redelivery, and the provider knew the second attempt by its key"
	}
	findings := []Finding{
		r.accepted(c.victim.ID, victim, accepted),
		r.accepted("the one behind it", behind, 1),
		r.said("worker lines", victim, append(lines, once...)...),
		r.times("worker lines", victim, event.Sent, 2),
		r.times("worker lines", victim, event.DuplicateDropped, 0),
		r.revived(victim, true),
		r.recordAtCrash(victim, state, retention),
		r.noted("redis records, then", victim, 1, "deleted"),
		r.record(victim, state, retention),
		r.ready("notify.push", 0),
		r.elsewhere("notify.push"),
	}
	v := judged(r, findings, []Fate{r.fate(c.victim, notify.Push), r.fate(c.behind, notify.Push)}).about(c.victim.ID)
	v.Want, v.Why = want, why
	v.Bug, v.Fixed = want != Once, want == Once
	return v
}
