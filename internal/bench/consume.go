package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
	"notifylab/internal/worker"
)

// A manner is how a worker works: its settings, and what it does beside the work.
type manner struct {
	settings event.Settings
	read     bool // the settings from Redis, for each message
	lines    bool // events as lines
	journal  bool
	http     bool // the provider is called over HTTP
}

func consumeManners() map[string]manner {
	lease := event.Settings{Idempotency: true, ClaimLease: true}
	key := lease
	key.ProviderKey = true
	return map[string]manner{
		"consume/none":           {},
		"consume/record":         {settings: event.Settings{Idempotency: true}},
		"consume/lease":          {settings: lease},
		"consume/lease+key":      {settings: key},
		"consume/lease+settings": {settings: lease, read: true},
		"consume/lease+lines":    {settings: lease, lines: true},
		"consume/lease+journal":  {settings: lease, journal: true},
		"consume/lease+http":     {settings: lease, http: true},
		"consume/lease+all":      {settings: lease, read: true, lines: true, journal: true},
	}
}

// Bare clients: one that does nothing, and those with handlers, by what these ask of Redis.
const (
	consumeBare    = "consume/bare"
	handlers       = "consume/handlers"
	handlersRecord = handlers + "+record"
	handlersLease  = handlers + "+lease"
)

// consumeNames are those of bare clients with handlers, and the manners' in their order.
// All is settings, lines and journal.
func consumeNames() []string {
	return []string{
		handlers, handlersRecord, handlersLease,
		"consume/none", "consume/record", "consume/lease", "consume/lease+key",
		"consume/lease+settings", "consume/lease+lines", "consume/lease+journal", "consume/lease+http", "consume/lease+all",
	}
}

func (b *bench) consume(ctx context.Context) error {
	manners, chores := consumeManners(), b.chores()
	var ways []way
	for _, name := range consumeNames() {
		w := way{name: name, run: func(ctx context.Context) (pace, error) { return b.consumeAs(ctx, manners[name]) }}
		if prepare, bare := chores[name]; bare {
			w.run = func(ctx context.Context) (pace, error) { return b.consumeHandlers(ctx, prepare) }
		} else {
			w.like = manners[name].like()
		}
		ways = append(ways, w)
	}
	return b.compare(ctx, way{name: consumeBare, run: b.consumeBare}, ways...)
}

// like is the bare client that asks the same of Redis.
func (m manner) like() string {
	switch {
	case m.settings.ClaimLease:
		return handlersLease
	case m.settings.Idempotency:
		return handlersRecord
	default:
		return handlers
	}
}

// consumeAs has a worker handle a full queue, and returns how fast it settled that, from
// its start to its last ack.
func (b *bench) consumeAs(ctx context.Context, m manner) (pace, error) {
	if err := b.fill(ctx, b.Messages); err != nil {
		return pace{}, err
	}
	defer func() { _, _ = idem.Forget(context.WithoutCancel(ctx), b.redis, b.Namespace) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	run, closing, err := b.worker(ctx, m, b.Messages)
	if err != nil {
		return pace{}, err
	}
	defer closing()
	meter, err := b.startMeter(ctx, b.Messages)
	if err != nil {
		return pace{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Run(ctx) }()
	err = run.await(ended)
	done, unknown := meter.stop(context.WithoutCancel(ctx))
	stop()
	if err = cmp.Or(err, <-ended, unknown); err != nil {
		return pace{}, err
	}
	if err := b.awaitReady(context.WithoutCancel(ctx), 0); err != nil {
		return pace{}, err
	}
	if n := run.accepted.Load(); n != int64(b.Messages) {
		return pace{}, fmt.Errorf("%d of %d were sent", n, b.Messages)
	}
	return done, nil
}

// A measured worker counts what it does.
type measured struct {
	*worker.Worker
	accepted *atomic.Int64
	settled  chan struct{} // closed when as many are acked as there are
	broken   chan error    // holds one: it lost a server, so nothing can be measured
}

// await waits until all is settled. Ended gets the end of Run.
func (m measured) await(ended chan error) error {
	select {
	case <-m.settled:
		return nil
	case err := <-m.broken:
		return err
	case err := <-ended:
		ended <- err
		return fmt.Errorf("the worker ended: %w", err)
	}
}

// worker makes a worker for n messages in this process, so that a profile shows it.
func (b *bench) worker(ctx context.Context, m manner, n int) (run measured, closing func(), err error) {
	client, err := idem.Dial(b.RedisURL, b.Concurrency+8)
	if err != nil {
		return run, nil, err
	}
	closers := []func(){func() { _ = client.Close() }}
	closing = func() {
		for i := len(closers) - 1; i >= 0; i-- {
			closers[i]()
		}
	}
	run = measured{accepted: new(atomic.Int64), settled: make(chan struct{}), broken: make(chan error, 1)}
	names := b.topology().Names
	cfg := worker.Config{
		Channel: notify.Push, Name: worker.WorkerName("push", b.slot.Number()), Slot: b.slot.Number(),
		Queue: names.Work(notify.Push), DeadLetters: names.DeadLetters(notify.Push),
		Open:        b.session,
		Records:     idem.NewStore(client, b.Namespace, b.slot, lease, retention),
		Settings:    func(context.Context) (event.Settings, error) { return m.settings, nil },
		Concurrency: b.Concurrency, Attempts: 3, Backoff: []time.Duration{500 * time.Millisecond, time.Second},
		SendTimeout: sendTimeout, Retention: retention, MaxCrashes: 3,
		CrashPoints: true, Marks: lab.NewMarks(client, b.Namespace),
		Die: func() {}, Suspend: func() {},
	}
	if m.read {
		settings := lab.NewSettings(client, b.Namespace)
		on := map[string]bool{"idempotency": m.settings.Idempotency, "claim-lease": m.settings.ClaimLease, "provider-key": m.settings.ProviderKey}
		if err := settings.Set(ctx, on); err != nil {
			closing()
			return run, nil, err
		}
		cfg.Settings = settings.Get
	}
	var acked atomic.Int64
	cfg.Emit = func(e event.Event) {
		switch {
		case e.Kind == event.Acked && acked.Add(1) == int64(n):
			close(run.settled)
		case e.Kind == event.Disconnect:
			select {
			case run.broken <- errors.New(e.Reason):
			default:
			}
		}
	}
	if m.lines || m.journal {
		says, silence, err := b.says(client, m)
		if err != nil {
			closing()
			return run, nil, err
		}
		count := cfg.Emit
		cfg.Emit = func(e event.Event) { says(e); count(e) }
		closers = append(closers, silence)
	}
	cfg.Sender = direct{run.accepted}
	if m.http {
		listening, err := provider.New(provider.Options{}).Listen("")
		if err != nil {
			closing()
			return run, nil, err
		}
		sender, err := provider.NewClient(listening.URL(), provider.ClientOptions{MaxConns: 2 * b.Concurrency})
		if err != nil {
			closing()
			return run, nil, err
		}
		cfg.Sender = counted{sender, run.accepted}
		closers = append(closers, func() { _ = listening.Close(context.Background()) }, sender.Close)
	}
	run.Worker = worker.New(cfg)
	return run, closing, nil
}

// The workers' own defaults.
const (
	lease       = 10 * time.Second
	retention   = 24 * time.Hour
	sendTimeout = 5 * time.Second
)

func (b *bench) session(ctx context.Context) (worker.Session, error) {
	s, err := broker.Open(ctx, broker.SessionConfig{
		Config: b.broker("bench worker"), Topology: b.topology(), Prefetch: b.Prefetch, PublishTimeout: 5 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// direct is a provider in this process that accepts.
type direct struct{ accepted *atomic.Int64 }

func (d direct) Send(context.Context, notify.Attempt) notify.Result {
	d.accepted.Add(1)
	return notify.Result{Answer: notify.Accepted}
}

// counted counts what is accepted elsewhere.
type counted struct {
	notify.Sender
	accepted *atomic.Int64
}

func (c counted) Send(ctx context.Context, a notify.Attempt) notify.Result {
	r := c.Sender.Send(ctx, a)
	if r.Answer == notify.Accepted {
		c.accepted.Add(1)
	}
	return r
}
