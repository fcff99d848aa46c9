package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
	"notifylab/internal/worker"
)

// topology is the queues of some channels as the workers have them.
func (w *workerFlags) topology(names broker.Names, channels ...notify.Channel) broker.Topology {
	return broker.Topology{Names: names, Channels: channels, Delays: w.backoff, Type: broker.QueueType(w.queueType), Expires: w.queueExpires}
}

// sessions returns what opens the worker's sessions: the first one patiently, and
// its failure is final; later ones once.
func (a *app) sessions(c notify.Channel, w workerFlags, names broker.Names, opened func(context.Context, *broker.Session, broker.Topology)) func(context.Context) (worker.Session, error) {
	cfg := broker.SessionConfig{
		Config:  a.broker(string(c)+" worker", w.heartbeat, min(w.connectTimeout, 5*time.Second)),
		Declare: w.declare, Prefetch: w.prefetch, PublishTimeout: w.publishTimeout,
		Topology: w.topology(names, c),
	}
	open := func(ctx context.Context) (worker.Session, error) {
		s, err := broker.Open(ctx, cfg)
		if err != nil {
			return nil, err
		}
		opened(ctx, s, cfg.Topology)
		return s, nil
	}
	first := true
	return func(ctx context.Context) (s worker.Session, err error) {
		if !first {
			return open(ctx)
		}
		first = false
		err = patiently(ctx, a.stderr, w.connectTimeout, func(ctx context.Context) (err error) {
			s, err = open(ctx)
			return err
		})
		return s, err
	}
}

// wireRedis gives the worker its records, settings and marks. A worker with all
// settings off by flags does without Redis if there is none.
func (a *app) wireRedis(ctx context.Context, cfg *worker.Config, says *voice, slot *idem.Slot, w workerFlags) (*chronicle, func(), error) {
	client, err := idem.Dial(a.redisURL, w.concurrency+8)
	if err != nil {
		return nil, nil, err
	}
	ping := func(ctx context.Context) error { return idem.Ping(ctx, client, a.redisURL) }
	if !w.needsRedis() {
		cfg.Settings = func(context.Context) (event.Settings, error) { return event.Settings{}, nil }
		if err := ping(ctx); err != nil {
			client.Close()
			cfg.Emit(event.Event{Time: time.Now(), Kind: event.Note, Source: cfg.Name, PID: os.Getpid(),
				Reason: "without Redis (all settings are off): crashes of suspects are not counted, crash points do not fire, nothing is journalled. " + err.Error()})
			return nil, func() {}, nil
		}
	} else {
		if err := patiently(ctx, a.stderr, w.connectTimeout, ping); err != nil {
			client.Close()
			return nil, nil, err
		}
		settings := lab.NewSettings(client, a.ns())
		if err := seed(ctx, settings); err != nil {
			client.Close()
			return nil, nil, because(ctx, err)
		}
		cfg.Settings = w.override(settings.Get)
	}
	cfg.Records = idem.NewStore(client, a.ns(), slot, w.lease, w.retention).Without(idem.Guard(w.without))
	cfg.Marks = lab.NewMarks(client, a.ns())
	c := a.openChronicle(ctx, client, cfg, says, slot, w)
	return c, func() { c.close(); client.Close() }, nil
}

// seed gives settings that nobody has set their first values, by the environment.
func seed(ctx context.Context, settings *lab.Settings) error {
	first := map[string]bool{}
	for name, env := range map[string]string{"idempotency": "IDEMPOTENCY_ENABLED", "claim-lease": "CLAIM_LEASE_ENABLED"} {
		value := os.Getenv(env)
		if value == "" {
			continue
		}
		on, err := lab.ParseSwitch(value)
		if err != nil {
			return usagef("$%s: %w; there are on, off, true, false, 1, 0", env, err)
		}
		first[name] = on
	}
	if err := settings.Seed(ctx, first); err != nil {
		return unavailableError{err}
	}
	return nil
}

// override lets the settings that were given as flags stand, whatever the lab
// says. If all were given the lab is not asked.
func (w *workerFlags) override(get func(context.Context) (event.Settings, error)) func(context.Context) (event.Settings, error) {
	all := w.idempotency != "" && w.claimLease != "" && w.providerKey != ""
	return func(ctx context.Context) (s event.Settings, err error) {
		if !all {
			if s, err = get(ctx); err != nil {
				return s, err
			}
		}
		for _, f := range []struct {
			flag string
			is   *bool
		}{{w.idempotency, &s.Idempotency}, {w.claimLease, &s.ClaimLease}, {w.providerKey, &s.ProviderKey}} {
			if f.flag != "" {
				*f.is = f.flag == "on"
			}
		}
		return s, nil
	}
}

// wireProvider gives the worker its provider: the one at the URL, or its own on
// the loopback.
func wireProvider(cfg *worker.Config, w workerFlags) (func(), error) {
	url, closeServer := w.providerURL, func() {}
	if url == "" {
		running, err := provider.New(provider.Options{}).Listen("")
		if err != nil {
			return nil, err
		}
		url, closeServer = running.URL(), func() { running.Close(context.Background()) }
	}
	// Handlers outlive their session: those of the last one need connections, too.
	client, err := provider.NewClient(url, provider.ClientOptions{MaxConns: 2 * w.concurrency, SayPid: w.sayPid})
	if err != nil {
		closeServer()
		return nil, fmt.Errorf("--provider-url: %w", err) // was checked
	}
	cfg.Sender = client
	return func() { client.Close(); closeServer() }, nil
}

// hidden returns which events --events leaves out of text and JSON.
func hidden(choice string) func(event.Event) bool {
	if choice != "summary" {
		return nil
	}
	return func(e event.Event) bool {
		switch e.Kind {
		case event.Received, event.Claimed, event.Done, event.Acked, event.Queued:
			return true
		}
		return false
	}
}
