package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
	"notifylab/internal/worker"
)

func (a *app) workerCommand() *cobra.Command {
	var w workerFlags
	cmd := &cobra.Command{
		Use:     "worker CHANNEL",
		GroupID: groupRun,
		Short:   "Run one worker: take messages from a channel's queue, send, ack",
		Long: `One worker process. It takes deliveries from notify.CHANNEL and sees each to its
end: receive, claim, send, complete, ack. SIGTERM or Ctrl-C: it finishes what is in
hand, gives back the rest and exits 0; a second Ctrl-C ends it at once.

Settings (idempotency, claim-lease, provider-key) are read from Redis for each
message, so they can be switched while it runs; given as flags they stay.
Without --provider-url it has a provider of its own that accepts everything but
user 999's push.`,
		Example: `  notifylab worker push
  notifylab worker email --idempotency on --claim-lease on
  notifylab worker push --provider-url http://localhost:3200 --prefetch 1 --concurrency 1`,
		Args:              channelArg,
		ValidArgsFunction: completeChannels,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := w.check(); err != nil {
				return err
			}
			c, _ := notify.ParseChannel(args[0])
			return a.runWorker(cmd.Context(), c, w)
		},
	}
	w.register(cmd.Flags())
	return cmd
}

func channelArg(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("which channel? There are %s", strings.Join(channelNames(), ", "))
	}
	return checkChannel(args[0])
}

func checkChannel(name string) error {
	if _, err := notify.ParseChannel(name); err != nil {
		return unknown("channel", name, "", channelNames())
	}
	return nil
}

func channelNames() []string {
	var names []string
	for _, c := range notify.Channels() {
		names = append(names, string(c))
	}
	return names
}

func completeChannels(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return channelNames(), cobra.ShellCompDirectiveNoFileComp
}

// runWorker wires a worker and runs it until it is told to stop, or its supervisor
// is gone.
func (a *app) runWorker(ctx context.Context, c notify.Channel, w workerFlags) error {
	ctx, cancel, done, err := a.tended(ctx)
	if err != nil {
		return err
	}
	defer done()

	slot, err := idem.TakeSlot(a.state(), a.ns(), c)
	if err != nil {
		return hinted{unavailableError{err}, []string{"another place   --state-dir DIRECTORY"}}
	}
	defer slot.Free()
	var says voice
	if w.events != "none" {
		says.out = a.printer(cancel)
		says.out.hide = hidden(w.events)
	}

	cfg := worker.Config{
		Channel: c, Slot: slot.Number(), Name: worker.WorkerName(string(c), slot.Number()),
		Emit: says.say, Die: a.die, Suspend: a.suspend, CrashPoints: w.crashPoints,
		Concurrency: w.concurrency, Attempts: w.attempts, Backoff: w.backoff,
		SendTimeout: w.sendTimeout, Retention: w.retention, MaxCrashes: w.maxCrashes,
		AckEarly: w.ack == "early", ParkUnknown: w.onUnknown == "park",
		Without: worker.Guard(w.without),
	}
	names := broker.Names{Namespace: a.ns()}
	cfg.Queue, cfg.DeadLetters = names.Work(c), names.DeadLetters(c)

	written, closeRedis, err := a.wireRedis(ctx, &cfg, &says, slot, w)
	if err != nil {
		return stopped(err)
	}
	defer closeRedis()
	cfg.Open = a.sessions(c, w, names, written.opened)
	closeMetrics, err := a.offerMetrics(w.metricsListen, &cfg.Emit)
	if err != nil {
		return err
	}
	defer closeMetrics()
	closeProvider, err := wireProvider(&cfg, w)
	if err != nil {
		return err
	}
	defer closeProvider()

	// What is in hand when it is told to stop may take the grace, no longer.
	context.AfterFunc(ctx, func() {
		time.AfterFunc(w.grace, func() {
			fmt.Fprintf(a.stderr, "notifylab: %s: what was in hand took longer than the grace of %s\n", cfg.Name, event.Short(w.grace))
			a.exit(exitFinding)
		})
	})
	if err := worker.New(cfg).Run(ctx); err != nil {
		return stopped(because(ctx, unavailableError{err})) // there never was a session
	}
	return stopped(context.Cause(ctx))
}

// stopped turns the error of a command that was told to stop into none: it is to
// run until then.
func stopped(err error) error {
	var sig interrupted
	if errors.As(err, &sig) || errors.Is(err, errOrphaned) {
		return nil
	}
	return err
}
