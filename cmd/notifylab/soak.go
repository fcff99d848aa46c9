package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/scenario"
)

type soakFlags struct {
	duration, killEvery, restartEvery, timeout time.Duration
	rate, setting                              string
	seed                                       int64
	concurrency                                int
}

func (a *app) soakCommand() *cobra.Command {
	var f soakFlags
	cmd := &cobra.Command{
		Use:     "soak",
		GroupID: groupLearn,
		Short:   "Kill workers and restart servers under steady traffic, and count what became of all",
		Long: `Publishes events at a steady rate, each on both channels, to two workers a channel.
Every so often a random worker is killed (SIGKILL; its supervisor starts it again), and
now and then Redis or RabbitMQ is restarted, in turn. In the end, when everything is
settled, the provider's ledger says what became of each message. The servers are a pair
of its own.

What may happen, by setting
  none        sent again: at most the prefetch, which is twice the concurrency, for each
              kill, and for each session that ends: a restart of RabbitMQ ends all
  record      lost: at most one for each handler (the concurrency) and kill
  lease       sent again: at most one for each handler and kill
  key         nothing lost, nothing twice; lease+key likewise
  ack-early   lost: one for each handler and kill; sent again as without any

Each second acceptance must have a cause of its own: the death or the session's end of a
worker that had the message in hand, or an answer that did not come in time (UNKNOWN).
A message whose publish was not confirmed is not missed if it is nowhere.

Exit status: 0 as predicted, 1 not as predicted, 75 inconclusive (nothing confirmed or
not settled in time, no servers of its own to be had), 64 wrong usage.`,
		Example: `  notifylab soak --duration 2s --kill-every 500ms --rate 100/s
  notifylab soak --duration 3s --setting none --restart-every 0s --seed 7 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			every, err := f.check(a.ns())
			if err != nil {
				return err
			}
			return a.soak(cmd.Context(), f, every)
		},
	}
	set := cmd.Flags()
	set.DurationVar(&f.duration, "duration", 2*time.Minute, "how long there is traffic, from the first message confirmed")
	set.DurationVar(&f.killEvery, "kill-every", 2*time.Second, "how often a worker is killed; 0: never")
	set.DurationVar(&f.restartEvery, "restart-every", 30*time.Second, "how often a server is restarted, Redis and RabbitMQ in turn; 0: never")
	set.IntVar(&f.concurrency, "concurrency", 16, "deliveries that a worker handles at once; its prefetch is twice that")
	set.StringVar(&f.rate, "rate", "500/s", "how many events a second, each on both channels")
	set.Var(newChoice(&f.setting, "lease", soakSettingNames()...), "setting", strings.Join(soakSettingNames(), ", "))
	set.DurationVar(&f.timeout, "timeout", 2*time.Minute, "how long it may take to the first, and after the traffic until all is settled")
	set.Int64Var(&f.seed, "seed", 0, "which worker is killed when comes from this; 0: a new one")
	return cmd
}

// often says how often something is done: a worker killed every 2s.
func often(what string, every time.Duration) string {
	if every == 0 {
		return "no " + what
	}
	return "a " + what + " every " + event.Short(every)
}

func soakSettingNames() []string {
	var names []string
	for _, s := range scenario.NamedSettings() {
		names = append(names, s.Name)
	}
	return names
}

// check returns how often an event is published.
func (f *soakFlags) check(ns notify.Namespace) (every time.Duration, err error) {
	switch {
	case f.concurrency < 1 || f.concurrency > 32767:
		return 0, usagef("--concurrency %d: from 1 to 32767, since the prefetch is twice that", f.concurrency)
	case f.killEvery < 0:
		return 0, usagef("--kill-every %v: at least 0, which is never", f.killEvery)
	case f.restartEvery < 0:
		return 0, usagef("--restart-every %v: at least 0, which is never", f.restartEvery)
	case f.killEvery+f.restartEvery == 0:
		return 0, usagef("--kill-every 0s and --restart-every 0s: nothing would be done that could do harm")
	}
	if err := moreThanZero("duration", f.duration, "timeout", f.timeout); err != nil {
		return 0, err
	}
	if err := checkRuns(ns, 1, f.timeout); err != nil {
		return 0, err
	}
	return parseRate(f.rate)
}

// soak runs it on a pair of its own.
func (a *app) soak(ctx context.Context, f soakFlags, every time.Duration) error {
	ctx, cancel, done := a.signals(ctx, syscall.SIGHUP)
	defer done()
	r := &runner{app: a, cancel: cancel}
	defer r.closePlaces()
	out := a.printer(cancel)
	k := scenario.Soak{
		Duration: f.duration, Every: every, KillEvery: f.killEvery, RestartEvery: f.restartEvery,
		Config: scenario.Config{
			Namespace: r.runNamespace(), Settings: scenario.SettingsNamed(f.setting), Seed: f.seed, Timeout: f.timeout, Emit: out.event,
			Concurrency: f.concurrency,
			Worker:      func(c notify.Channel) []string { return []string{self(), "worker", string(c)} },
		},
	}
	if k.Seed == 0 {
		k.Seed = int64(rand.IntN(1000) + 1)
	}
	at, err := r.place(ctx, scenario.Scenario{Harms: true})
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		v := scenario.Scenario{Name: "soak"}.Unplayed(k.Config, reason(err))
		a.soakVerdict(out, f, v, scenario.Tally{Kind: "soak"})
		return statusError{exitInconclusive, ""}
	}
	k.AMQPURL, k.RedisURL, k.Pair, k.Env = at.amqpURL, at.redisURL, at.pair, at.childEnv()
	out.ns, out.relative = k.Namespace, true
	if !out.json {
		out.linef("soak: %s of %s, %s, %s", event.Short(f.duration), f.rate, often("worker killed", f.killEvery), often("server restarted", f.restartEvery))
		out.linef("RabbitMQ %s, Redis %s, %s, namespace %s, seed %d", escape(at.versions.rabbitmq), escape(at.versions.redis), settingsText(&k.Settings), k.Namespace, k.Seed)
		out.linef("")
	}
	show, clear := a.soakProgress(f.duration)
	k.Progress = show
	v, t, err := k.Run(ctx)
	clear()
	if err != nil {
		return because(ctx, unavailableError{err})
	}
	v.RabbitMQ, v.Redis = at.versions.rabbitmq, at.versions.redis
	a.soakVerdict(out, f, v, t)
	switch {
	case ctx.Err() != nil: // nobody reads any more
		return context.Cause(ctx)
	case v.Status == scenario.NotHeld:
		return statusError{exitFinding, ""}
	case v.Status == scenario.Inconclusive:
		return statusError{exitInconclusive, ""}
	}
	return nil
}

// soakProgress returns what redraws a line on a terminal, and what takes it away;
// elsewhere they do nothing.
func (a *app) soakProgress(duration time.Duration) (show func(scenario.Tally), clear func()) {
	if a.output == "json" || !isTerminal(a.stderr) {
		return nil, func() {}
	}
	show = func(t scenario.Tally) { fmt.Fprint(a.stderr, "\r\x1b[K"+soakLine(t, duration)) }
	return show, func() { fmt.Fprint(a.stderr, "\r\x1b[K") }
}

// soakLine fits into 80 columns, or a terminal would have it on two lines and keep the
// first.
func soakLine(t scenario.Tally, duration time.Duration) string {
	const most = 79
	so := time.Duration(t.ElapsedMS) * time.Millisecond / time.Second * time.Second
	line := fmt.Sprintf("%s of %s  %d confirmed  %d accepted  %d again  %s  %s", event.Short(so), event.Short(duration),
		t.Confirmed, t.Accepted, t.Again, count(t.Kills, "kill"), count(t.RabbitMQRestarts+t.RedisRestarts, "restart"))
	return line[:min(most, len(line))]
}

func doneTo(t scenario.Tally) string {
	return fmt.Sprintf("%s, %s of RabbitMQ, %d of Redis", count(t.Kills, "kill"), count(t.RabbitMQRestarts, "restart"), t.RedisRestarts)
}

// soakVerdict prints the counts, and what was judged by them.
func (a *app) soakVerdict(out *printer, f soakFlags, v scenario.Verdict, t scenario.Tally) {
	if out.json {
		out.object(t)
		out.object(v)
		return
	}
	if v.Status != scenario.Inconclusive {
		out.linef("")
		out.linef("  producer   %d published: %d confirmed, %d refused, %d unconfirmed, of which %d arrived", t.Published, t.Confirmed, t.Refused, t.Unconfirmed, t.Arrived)
		out.linef("  provider   %d accepted, %d of them again; %d known by their key", t.Accepted, t.Again, t.Known)
		if t.Unanswered > 0 {
			out.linef("  workers    %d UNKNOWN: no answer came", t.Unanswered)
		}
		out.linef("  confirmed  %d once, %d twice, %d lost, %d parked", t.Once, t.Twice, t.Lost, t.Parked)
		for _, why := range slices.Sorted(maps.Keys(t.Why)) {
			out.linef("  parked     %d: %s", t.Why[why], escape(why))
		}
		out.linef("  harm       %s, in %s", doneTo(t), event.Short(time.Duration(t.ElapsedMS)*time.Millisecond))
		out.linef("")
		table(out, v.Findings)
	}
	out.linef("")
	p := out.palette
	switch v.Status {
	case scenario.Held:
		out.linef("%s  %s.", p.green.Sprint("HELD"), v.Why)
		return
	case scenario.NotHeld:
		out.linef("%s  %s.", p.red.Sprint("NOT HELD"), v.Why)
		for _, f := range v.Findings {
			if !f.OK && len(f.IDs) > 0 {
				out.linef("%s: %s", f.What, strings.Join(f.IDs, ", "))
			}
		}
	case scenario.Inconclusive:
		out.linef("%s  %s", p.yellow.Sprint("INCONCLUSIVE"), escape(v.Why))
		if v.Last != "" {
			out.linef("last: %s", escape(v.Last))
		}
	}
	out.linef("again: notifylab soak --duration %s --kill-every %s --restart-every %s --rate %s --setting %s --seed %d -v",
		event.Short(f.duration), event.Short(f.killEvery), event.Short(f.restartEvery), f.rate, f.setting, v.Seed)
}
