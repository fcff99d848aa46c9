package scenario

import (
	"context"
	"strings"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/servers"
	"notifylab/internal/servers/serverstest"
)

// harmRig is a rig on a pair that may be harmed.
func harmRig(t *testing.T, pair *servers.Pair) rig {
	t.Helper()
	r := newRigAt(t, pair.AMQPURL, pair.RedisURL)
	r.Pair, r.Timeout = pair, 2*time.Minute
	return r
}

// TestHarms plays each that harms servers with its own settings, and with those
// under which another end is predicted, one after another on one pair.
func TestHarms(t *testing.T) {
	t.Parallel()
	pair := serverstest.Own(t)
	none, record, key := event.Settings{}, event.Settings{Idempotency: true}, event.Settings{ProviderKey: true}
	recordAndKey := event.Settings{Idempotency: true, ProviderKey: true}
	for _, c := range []struct {
		name     string
		settings event.Settings
		outcome  Outcome
	}{
		{"redis-amnesia", withLease(), Twice}, {"redis-amnesia", recordAndKey, Once},
		{"redis-outage", withLease(), Once}, {"redis-outage", none, Once}, {"redis-outage", record, Once},
		{"broker-restart", withLease(), Once}, {"broker-restart", none, Twice}, {"broker-restart", key, Once}, {"broker-restart", record, Once},
		{"broker-alarm", withLease(), Parked},
	} {
		t.Run(c.name+", "+settingsName(c.settings), func(t *testing.T) {
			r, s := harmRig(t, pair), named(t, c.name)
			r.Settings = c.settings
			v, told := playHarm(t, r, s)
			if v.Status != Held || v.Outcome != c.outcome || v.Want != c.outcome || c.settings == s.Settings && c.outcome != s.Outcome {
				t.Error(explain(v))
			}
			same(t, "what was emitted, and the verdict's events", told, v.Events)
			r.left(t, nothing)
		})
	}
	t.Run("spoilt", func(t *testing.T) { testSpoilt(t, pair) })
}

// playHarm plays one on a pair that was harmed before. Told is what was emitted of it.
func playHarm(t *testing.T, r rig, s Scenario) (v Verdict, told []event.Event) {
	t.Helper()
	before := 0
	err := onHarmed(t, r.Pair, func() (err error) {
		before = r.story.Len()
		v, err = s.Run(t.Context(), r.Config)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	return v, r.story.All()[before:]
}

// onHarmed plays something on a pair that was harmed before. RabbitMQ 3.10.8 can be
// left by a restart so that it answers every declare of a quorum queue with
// INTERNAL_ERROR, until it is started again (its supervisor of dead-lettering is
// gone): then it is, and the play played again.
func onHarmed(t *testing.T, pair *servers.Pair, play func() error) error {
	t.Helper()
	err := play()
	if err == nil || !strings.Contains(err.Error(), "INTERNAL_ERROR") {
		return err
	}
	for _, do := range []func(context.Context, servers.Server) error{pair.Stop, pair.Start} {
		if err := do(t.Context(), servers.RabbitMQ); err != nil {
			t.Fatal(err)
		}
	}
	return play()
}

// testSpoilt: what can't be shown is inconclusive, and a run that ends while a
// server is away ends all the same, and leaves no process.
func testSpoilt(t *testing.T, pair *servers.Pair) {
	for name, c := range map[string]struct{ scenario, flags, says string }{
		"no crash points":  {"redis-amnesia", "--crash-points=false", unhit},
		"another provider": {"broker-restart", "--provider-url ''", `the provider never had 1 call for \S+ on push in hand within`},
	} {
		r := harmRig(t, pair)
		right := r.Worker
		r.Worker = func(channel notify.Channel) []string { return adding(c.flags)(t, right(channel)) }
		r.Settings, r.Timeout = withLease(), short
		if v, _ := playHarm(t, r, named(t, c.scenario)); v.Status != Inconclusive || !matches(c.says, v.Why) {
			t.Errorf("%s: %s", name, explain(v))
		}
		r.left(t, nothing)
	}
	r := harmRig(t, pair)
	r.Settings = withLease()
	ctx, cancel := context.WithCancel(within(t))
	r.Emit = func(e event.Event) {
		r.story.Add(e)
		if e.State == killed {
			cancel()
		}
	}
	if v, err := named(t, "redis-outage").Run(ctx, r.Config); err == nil {
		t.Error(explain(v))
	}
	if err := pair.Start(within(t), servers.Redis); err != nil {
		t.Fatal(err)
	}
	here := harmRig(t, pair) // to look with
	here.Namespace = r.Namespace
	here.left(t, queuesAndKeys)
}

// TestHarms_nobody_elses: without a pair of its own none is played.
func TestHarms_nobody_elses(t *testing.T) {
	t.Parallel()
	n := 0
	for _, s := range Catalogue() {
		if !s.Harms {
			continue
		}
		n++
		r := newRig(t)
		r.Settings = s.Settings
		v := r.run(t, s)
		if v.Status != Inconclusive || !strings.Contains(v.Why, "no servers that it may harm") || v.Scenario != s.Name || len(v.Events) > 0 {
			t.Error(explain(v))
		}
		if s.Limit() != 2*time.Minute {
			t.Errorf("%s: %s", s.Name, s.Limit())
		}
	}
	if n != 4 {
		t.Errorf("%d harm servers", n)
	}
}

func TestCheck_refuses_amnesia_without_a_record(t *testing.T) {
	t.Parallel()
	for _, settings := range allSettings() {
		if err := named(t, "redis-amnesia").Check(settings); (err == nil) != settings.Idempotency {
			t.Errorf("%s: %v", settingsName(settings), err)
		}
	}
}
