package main

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
	"notifylab/internal/passes"
	"notifylab/internal/provider"
	"notifylab/internal/supervise"
)

// The parts of the second chapter, expire, reaction and reader: the chapter's scenarios
// run them, and its lessons show how to run them by hand.

// partFlags are the flags of every part.
type partFlags struct {
	providerURL              string
	sendTimeout              time.Duration
	queueExpires, keyExpires time.Duration
	declare                  bool
}

func (f *partFlags) register(set *pflag.FlagSet) {
	set.StringVar(&f.providerURL, "provider-url", "", "POST to this URL; default: a built-in provider that accepts")
	set.DurationVar(&f.sendTimeout, "send-timeout", 5*time.Second, "how long one send may take")
	set.BoolVar(&f.declare, "declare", true, "make queues, exchange and streams that are missing")
	set.DurationVar(&f.queueExpires, "queue-expires", 0, "let the broker delete queues unused for that long")
	set.DurationVar(&f.keyExpires, "key-expires", 0, "let Redis forget passes and groups after that long")
	_ = set.MarkHidden("queue-expires")
	_ = set.MarkHidden("key-expires")
}

func (f *partFlags) check() error {
	if f.providerURL != "" {
		client, err := provider.NewClient(f.providerURL, provider.ClientOptions{}) // calls nobody
		if err != nil {
			return usagef("--provider-url: %w", err)
		}
		client.Close()
	}
	return moreThanZero("send-timeout", f.sendTimeout)
}

// A part is what such a process works with.
type part struct {
	*app
	flags    partFlags
	emit     func(event.Event)
	redis    idem.Client
	sender   notify.Sender
	register *passes.Register
	marks    *lab.Marks
}

// runPart wires a part and runs it until it is done, is told to stop, or its supervisor
// is gone.
func (a *app) runPart(ctx context.Context, f partFlags, do func(context.Context, *part) error) error {
	ctx, cancel, done, err := a.tended(ctx)
	if err != nil {
		return err
	}
	defer done()
	err = a.withRedis(ctx, func(ctx context.Context, c idem.Client) error {
		url, closeServer := f.providerURL, func() {}
		if url == "" {
			running, err := provider.New(provider.Options{}).Listen("")
			if err != nil {
				return err
			}
			url, closeServer = running.URL(), func() { running.Close(context.Background()) }
		}
		defer closeServer()
		client, err := provider.NewClient(url, provider.ClientOptions{})
		if err != nil {
			return err
		}
		defer client.Close()
		return do(ctx, &part{
			app: a, flags: f, emit: a.printer(cancel).event, redis: c, sender: client,
			register: passes.NewRegister(c, a.ns(), f.keyExpires), marks: lab.NewMarks(c, a.ns()),
		})
	})
	return stopped(because(ctx, err))
}

// tended is [app.signals] for a process that its supervisor's end ends, too.
func (a *app) tended(ctx context.Context) (context.Context, context.CancelCauseFunc, func(), error) {
	lifeline, err := supervise.OpenLifeline()
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel, done := a.signals(ctx)
	go func() {
		select {
		case <-lifeline.Lost():
			cancel(errOrphaned)
		case <-ctx.Done():
		}
	}()
	return ctx, cancel, done, nil
}

// say emits an event of this process under a name.
func (p *part) say(name string) func(event.Event) {
	return func(e event.Event) {
		e.Time, e.Source, e.PID = time.Now(), name, os.Getpid()
		p.emit(e)
	}
}

// dial returns what connects to the broker and, if it is to, makes what is missing and
// notes its names for who looks.
func (p *part) dial(name, kind string, names []string, declare func(context.Context, *broker.Conn) error) func(context.Context) (*broker.Conn, error) {
	return func(ctx context.Context) (*broker.Conn, error) {
		conn, err := broker.Dial(ctx, p.broker(name, 10*time.Second, 5*time.Second))
		if err != nil || !p.flags.declare {
			return conn, err
		}
		// Noted first: a stream that nobody knows of would stay for ever.
		err = lab.NewNotes(p.redis, p.ns(), p.flags.keyExpires).Declared(ctx, kind, names...)
		if err == nil {
			err = declare(ctx, conn)
		}
		if err != nil {
			conn.Close()
			return nil, err
		}
		return conn, nil
	}
}

// Reactions, by the names that they have in the story.
const (
	reactNotify = "notify"
	reactEmail  = "email"
	reactDelete = "delete-pass"
)

func reactions() []string { return []string{reactNotify, reactEmail, reactDelete} }

// effects are what reactions do.
func (p *part) effects(names ...string) []passes.Effect {
	var all []passes.Effect
	for _, name := range names {
		switch name {
		case reactNotify:
			all = append(all, passes.Telling(p.sender, notify.Push, p.flags.sendTimeout))
		case reactEmail:
			all = append(all, passes.Telling(p.sender, notify.Email, p.flags.sendTimeout))
		case reactDelete:
			all = append(all, passes.Deletion(p.register))
		}
	}
	return all
}

func checkReactions(flag string, names ...string) error {
	for _, name := range names {
		if !slices.Contains(reactions(), name) {
			return unknown(flag, name, "", reactions())
		}
	}
	return nil
}

// exchange is where expired passes are announced.
func (a *app) exchange() string { return a.ns().Queue("passes.expired") }

func completeReactions(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return reactions(), cobra.ShellCompDirectiveNoFileComp
}
