package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
	"notifylab/internal/supervise"
)

type superviseFlags struct {
	maxRestarts    int
	grace          time.Duration
	connectTimeout time.Duration
	metricsListen  string
	worker         workerFlags // as the workers will read theirs
}

func (a *app) superviseCommand() *cobra.Command {
	var s superviseFlags
	cmd := &cobra.Command{
		Use:     "supervise [CHANNEL=N…] [-- WORKER FLAGS]",
		GroupID: groupRun,
		Short:   "Run workers as child processes, and restart the ones that die",
		Long: `Runs workers as child processes and prints what they say, whole lines in their
order. One that dies is restarted: at once, then after 0.1 s doubling to 30 s; that
is forgotten after 5 healthy seconds or a settled delivery. Ctrl-C stops each once
and waits for it; a second Ctrl-C kills. Without arguments: push=1 email=1.
What follows -- goes to every worker; see notifylab worker --help.`,
		Example: `  notifylab supervise
  notifylab supervise push=2
  notifylab supervise push=1 email=1 -- --idempotency on --claim-lease on`,
		RunE: func(cmd *cobra.Command, args []string) error {
			own, flags := args, []string(nil)
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				own, flags = args[:n], args[n:]
			}
			plan, err := parsePlan(own)
			if err != nil {
				return err
			}
			if s.worker, err = parseWorkerFlags(flags); err != nil {
				return helpedBy("notifylab worker --help", err)
			}
			switch {
			case s.maxRestarts < 0:
				return usagef("--max-restarts %d: at least 0, which is no limit", s.maxRestarts)
			case s.grace < 0:
				return usagef("--grace %v: at least 0", s.grace)
			}
			if err := moreThanZero("connect-timeout", s.connectTimeout); err != nil {
				return err
			}
			if s.metricsListen != "" {
				if err := checkListen("metrics-listen", s.metricsListen, "127.0.0.1:9100"); err != nil {
					return err
				}
			}
			return a.supervise(cmd.Context(), plan, flags, s)
		},
		ValidArgsFunction: completeChannels,
	}
	f := cmd.Flags()
	f.IntVar(&s.maxRestarts, "max-restarts", 0, "give a worker up after that many restarts in a row; 0: never")
	f.DurationVar(&s.grace, "grace", 10*time.Second, "how long a worker may take to stop before it is killed")
	f.DurationVar(&s.connectTimeout, "connect-timeout", 30*time.Second, "how long to wait for servers that do not answer at the start")
	f.StringVar(&s.metricsListen, "metrics-listen", "", "offer /metrics, /healthz and /readyz of all workers at this address")
	return cmd
}

// crew is how many workers of a channel there are to be.
type crew struct {
	channel notify.Channel
	n       int
}

func parsePlan(args []string) ([]crew, error) {
	if len(args) == 0 {
		args = []string{"push=1", "email=1"}
	}
	var plan []crew
	for _, arg := range args {
		name, number, given := strings.Cut(arg, "=")
		if err := checkChannel(name); err != nil {
			return nil, err
		}
		n := 1
		if given {
			var err error
			if n, err = strconv.Atoi(number); err != nil || n < 1 || n > 1000 {
				return nil, usagef("%s: want CHANNEL=N, N from 1 to 1000", arg)
			}
		}
		plan = append(plan, crew{notify.Channel(name), n})
	}
	return plan, nil
}

// parseWorkerFlags finds usage errors before any worker is started with them.
func parseWorkerFlags(flags []string) (workerFlags, error) {
	var w workerFlags
	cmd := &cobra.Command{Use: "worker"}
	w.register(cmd.Flags())
	if err := cmd.ParseFlags(flags); err != nil {
		return w, usagef("worker flags: %w", suggestFlag(cmd, err))
	}
	if rest := cmd.Flags().Args(); len(rest) > 0 {
		return w, usagef("worker flags: %q is none", rest[0])
	}
	return w, w.check()
}

func (a *app) supervise(ctx context.Context, plan []crew, flags []string, s superviseFlags) error {
	ctx, cancel, done := a.signals(ctx)
	defer done()
	out := a.printer(cancel)
	if err := a.awaitServers(ctx, s.connectTimeout, plan, s.worker); err != nil {
		return stopped(because(ctx, err))
	}
	policy := supervise.DefaultPolicy()
	policy.MaxRestarts, policy.Grace = s.maxRestarts, s.grace
	workers := 0
	for _, c := range plan {
		workers += c.n
	}
	sink, closeSink, err := a.superviseSink(out, s, workers)
	if err != nil {
		return err
	}
	defer closeSink()
	sup := supervise.New(supervise.Config{
		Policy:   policy,
		Sink:     sink,
		Settled:  func(e event.Event) bool { return e.Kind == event.Acked },
		Hopeless: func(status int) bool { return status == exitUsage },
	})
	var killed atomic.Bool
	a.onSecond(func(os.Signal) { killed.Store(true); sup.Kill() })
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var children []supervise.Child
	env := (&place{amqpURL: a.amqpURL, redisURL: a.redisURL}).childEnv()
	for _, c := range plan {
		argv := append([]string{self, "worker", string(c.channel), "--namespace", a.namespace, "--state-dir", a.state(), "-o", "json", "--grace", s.grace.String()}, flags...)
		for range c.n {
			children = append(children, supervise.Child{Name: string(c.channel) + "-worker", Argv: argv, Env: env})
		}
	}
	err = sup.Run(ctx, children...)
	if killed.Load() {
		return context.Cause(ctx)
	}
	if err == nil && errors.Is(context.Cause(ctx), errOutputClosed) {
		return errOutputClosed
	}
	return err
}

// awaitServers waits for the servers that the workers need, so that a whole crew
// says it once, and makes sure of their queues: a worker that finds one with other
// arguments ends, and would only end so again.
func (a *app) awaitServers(ctx context.Context, wait time.Duration, plan []crew, w workerFlags) error {
	topology := w.topology(broker.Names{Namespace: a.ns()})
	for _, c := range plan {
		topology.Channels = append(topology.Channels, c.channel)
	}
	err := patiently(ctx, a.stderr, wait, func(ctx context.Context) error {
		conn, err := broker.Dial(ctx, a.broker("supervisor", w.heartbeat, min(wait, 5*time.Second)))
		if err != nil {
			return err
		}
		defer conn.Close()
		if !w.declare {
			return nil
		}
		declaring, cancel := answerWithin(ctx, w.publishTimeout)
		defer cancel()
		return conn.Declare(declaring, topology)
	})
	if err != nil {
		return unavailableError{err}
	}
	if !w.needsRedis() {
		return nil
	}
	client, err := idem.Dial(a.redisURL, 1)
	if err != nil {
		return err
	}
	defer client.Close()
	return patiently(ctx, a.stderr, wait, func(ctx context.Context) error { return idem.Ping(ctx, client, a.redisURL) })
}

// superviseSink is where all events go: they are printed, counted for whoever asks,
// and the supervisor's own are journalled as its workers journal theirs.
func (a *app) superviseSink(out *printer, s superviseFlags, workers int) (func(event.Event), func(), error) {
	sink := out.event
	closeJournal := func() {}
	if w := s.worker; w.needsRedis() && w.journal == "on" {
		client, err := idem.Dial(a.redisURL, 2)
		if err != nil {
			return nil, nil, err
		}
		journal := lab.NewJournal(client, a.ns(), w.keyExpires)
		sink = func(e event.Event) {
			out.event(e)
			if e.Source == supervise.Source {
				journal.Add(e)
			}
		}
		closeJournal = func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = journal.Close(ctx)
			client.Close()
		}
	}
	closeMetrics, err := a.offerMetricsOf(workers, s.metricsListen, &sink)
	if err != nil {
		closeJournal()
		return nil, nil, err
	}
	return sink, func() { closeMetrics(); closeJournal() }, nil
}
