package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"notifylab/internal/bench"
	"notifylab/internal/broker"
	"notifylab/internal/event"
)

type benchFlags struct {
	only                                                []string
	messages, rounds, prefetch, concurrency, recoveries int
	backlogs, workers                                   []int
	queueType, cpuProfile, memProfile                   string
}

func (a *app) benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:     "bench",
		GroupID: groupMeasure,
		Short:   "Measure rates, latency, recovery and memory, beside a bare client",
		Long: `Measures on the servers that answer, or else on a private pair, in a namespace of
its own. Rates say more of the machine than of the program: what counts are the ratios
to the bare client of the same run, which publishes with a sliding window of confirms
and consumes with coalesced acks, and the CPU time that Redis takes for a message.

  publish   the bare client, and notifylab produce
  consume   the bare client; one that hands each message to a handler that does nothing,
            or asks of Redis what a record or a lease takes, and nothing else: what a
            worker does is against the one that does as much, too. A worker in this
            process with each setting, the provider a function call; then with a lease
            and, beside the work, the settings read from Redis for each message, events
            as lines, the journal, the provider over HTTP, and all of these but HTTP
  latency   from when a publish is due to the provider, at half of what can be published
            and handled at once
  recovery  from a worker's SIGKILL in its only send to the next send: by itself, started
            again, and by a second worker
  memory    the most that a worker takes before a backlog
  workers   worker processes with their defaults and a lease, and a provider that takes
            20 ms

Measure on an idle machine. All of it takes about four minutes on two cores, and what
it took is its last line; --rounds and --messages make it longer or shorter, and what
is too short to compare says so.`,
		Example: "  notifylab bench --only consume/handlers+lease,consume/lease --rounds 1 --messages 2000\n  notifylab bench --only recovery --recoveries 2 -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("only") && len(f.only) == 0 {
				return usagef("--only: name a part, or a figure such as consume/lease")
			}
			if err := f.check(); err != nil {
				return err
			}
			return a.bench(cmd.Context(), f)
		},
	}
	set := cmd.Flags()
	set.StringSliceVar(&f.only, "only", nil, "measure these: a part, or a figure such as consume/lease")
	set.IntVar(&f.messages, "messages", 50000, "messages of one publish or consume run")
	set.IntVar(&f.rounds, "rounds", 3, "runs of each; medians are shown")
	set.IntVar(&f.prefetch, "prefetch", 512, "of the consumers")
	set.IntVar(&f.concurrency, "concurrency", 256, "of the workers")
	set.IntVar(&f.recoveries, "recoveries", 30, "kills of each kind")
	set.IntSliceVar(&f.backlogs, "backlogs", []int{10_000, 100_000, 1_000_000}, "messages before a worker whose memory is measured")
	set.IntSliceVar(&f.workers, "workers", []int{1, 2, 4, 8}, "numbers of worker processes")
	set.Var(newChoice(&f.queueType, "quorum", "quorum", "classic"), "queue-type", "quorum or classic")
	set.StringVar(&f.cpuProfile, "cpuprofile", "", "write a CPU profile of this process to this file")
	set.StringVar(&f.memProfile, "memprofile", "", "write a profile of what this process allocated to this file")
	_ = cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(bench.Names(f.config()), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (f *benchFlags) config() bench.Config {
	return bench.Config{
		Only: f.only, Messages: f.messages, Rounds: f.rounds, Prefetch: f.prefetch, Concurrency: f.concurrency,
		Recoveries: f.recoveries, Backlogs: f.backlogs, Workers: f.workers, QueueType: broker.QueueType(f.queueType),
	}
}

func (f *benchFlags) check() error {
	for _, n := range []struct {
		name  string
		value int
	}{{"messages", f.messages}, {"rounds", f.rounds}, {"prefetch", f.prefetch}, {"concurrency", f.concurrency}, {"recoveries", f.recoveries},
		{"backlogs", slices.Min(append(f.backlogs, 1))}, {"workers", slices.Min(append(f.workers, 1))}} {
		if n.value < 1 {
			return usagef("--%s %d: at least 1", n.name, n.value)
		}
	}
	if f.concurrency > f.prefetch || f.prefetch > 65535 {
		return usagef("--concurrency %d, --prefetch %d: the concurrency is at most the prefetch, and that 65535", f.concurrency, f.prefetch)
	}
	for flag, all := range map[string][]int{"backlogs": f.backlogs, "workers": f.workers} {
		if once := slices.Compact(slices.Sorted(slices.Values(all))); len(once) < len(all) {
			return usagef("--%s %s: each once", flag, strings.Trim(fmt.Sprint(all), "[]"))
		}
	}
	names := bench.Names(f.config())
	for i := range f.only {
		f.only[i] = strings.TrimSpace(f.only[i])
		only := f.only[i]
		if !slices.ContainsFunc(names, func(n string) bool { return n == only || strings.HasPrefix(n, only+"/") }) {
			return unknown("figure", only, "", names)
		}
	}
	return nil
}

func (a *app) bench(ctx context.Context, f benchFlags) (err error) {
	endProfiles, err := f.profile()
	if err != nil {
		return err
	}
	defer func() {
		if failed := endProfiles(); err == nil {
			err = failed
		}
	}()
	ctx, cancel, done := a.signals(ctx, syscall.SIGHUP)
	defer done()
	at, err := a.findServers(ctx)
	if err != nil {
		return because(ctx, err)
	}
	defer a.close(at)
	if at.versions, err = versionsOf(ctx, at.amqpURL, at.redisURL); err != nil {
		return because(ctx, unavailableError{err})
	}
	dir, err := os.MkdirTemp("", "notifylab-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	out := a.printer(cancel)
	cfg := f.config()
	cfg.AMQPURL, cfg.RedisURL, cfg.StateDir = at.amqpURL, at.redisURL, dir
	cfg.Namespace = a.runNamespace()
	cfg.Program, cfg.Env = self(), at.childEnv()
	a.onSecond(func(s os.Signal) {
		_ = os.RemoveAll(dir)
		fmt.Fprintf(a.stderr, "notifylab: ended at once; what it has left behind: notifylab --namespace %s reset --yes\n", cfg.Namespace)
		a.exit(exitStatus(interrupted{s}))
	})
	figures := &benchText{printer: out, fewMessages: f.messages < fairMessages, fewRounds: f.rounds < fairRounds}
	tell := figures.figure
	if a.output == "json" {
		tell = func(g bench.Figure) { out.object(g) }
		out.object(newBenchSetup(at.versions, f))
	} else {
		figures.head(newBenchSetup(at.versions, f))
	}
	bar := progressbar.NewOptions(1, progressbar.OptionSetWriter(a.stderr), progressbar.OptionSetVisibility(a.output == "text" && isTerminal(a.stderr)),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	cfg.Emit = func(g bench.Figure) {
		_ = bar.Clear() // the figure stands where it was, and it is drawn again below
		tell(g)
	}
	cfg.Progress = func(what string, step, steps int) {
		bar.ChangeMax(steps + 1)
		bar.Describe(what)
		_ = bar.Set(step)
	}
	began := time.Now()
	err = bench.Run(ctx, cfg)
	_ = bar.Finish()
	if err == nil && a.output == "text" {
		figures.foot(time.Since(began))
	}
	if err == nil && ctx.Err() != nil { // what was printed last
		err = ctx.Err()
	}
	return because(ctx, err)
}

// profile begins the profiles that were asked for and returns what ends them.
func (f *benchFlags) profile() (end func() error, err error) {
	var ends []func() error
	open := func(flag, path string) (*os.File, error) {
		file, err := os.Create(path)
		if err != nil {
			return nil, usagef("--%s %q: can't be written: %w", flag, path, reasonOf(err))
		}
		return file, nil
	}
	if f.cpuProfile != "" {
		file, err := open("cpuprofile", f.cpuProfile)
		if err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return nil, err
		}
		ends = append(ends, func() error { pprof.StopCPUProfile(); return file.Close() })
	}
	if f.memProfile != "" {
		file, err := open("memprofile", f.memProfile)
		if err != nil {
			return nil, err
		}
		ends = append(ends, func() error {
			if err := pprof.Lookup("allocs").WriteTo(file, 0); err != nil {
				return fmt.Errorf("write the memory profile: %w", err)
			}
			return file.Close()
		})
	}
	return func() error {
		for _, end := range ends {
			if err := end(); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// A benchSetup is where and how it was measured.
type benchSetup struct {
	Kind        string `json:"kind"` // machine
	CPU         string `json:"cpu,omitempty"`
	Cores       int    `json:"cores"`
	OS          string `json:"os"`
	Go          string `json:"go"`
	RabbitMQ    string `json:"rabbitmq"`
	Redis       string `json:"redis"`
	AMQPClient  string `json:"amqp_client"`  // version of amqp091-go
	RedisClient string `json:"redis_client"` // and of go-redis
	QueueType   string `json:"queue_type"`
	Messages    int    `json:"messages"` // of a publish or consume run
	Rounds      int    `json:"rounds"`
	Prefetch    int    `json:"prefetch"`
	Concurrency int    `json:"concurrency"`
	Short       bool   `json:"short,omitempty"` // too short, or too few runs, to compare
}

func newBenchSetup(v versions, f benchFlags) benchSetup {
	return benchSetup{
		Kind: "machine", CPU: cpu(), Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		RabbitMQ: v.rabbitmq, Redis: v.redis, AMQPClient: moduleVersion("github.com/rabbitmq/amqp091-go"), RedisClient: moduleVersion("github.com/redis/go-redis/v9"),
		QueueType: f.queueType, Messages: f.messages, Rounds: f.rounds, Prefetch: f.prefetch, Concurrency: f.concurrency,
		Short: f.messages < fairMessages || f.rounds < fairRounds,
	}
}

// moduleVersion returns the version of a module that this program is built with: 1.16.0.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "?"
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return "?"
}

// cpu returns the model of the CPU where Linux tells it.
func cpu() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(info), "model name")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimLeft(line, "\t :")
}

// With fewer of them two runs of the same thing are further apart than what is
// compared: what is slower can come out as faster.
const (
	fairMessages = 20_000
	fairRounds   = 3
)

// benchText prints figures in columns.
type benchText struct {
	*printer
	fewMessages, fewRounds bool
	short                  bool // a ratio was shown of runs that are too short, or too few
}

func (t *benchText) head(m benchSetup) {
	machine := []string{m.OS, count(m.Cores, "core")}
	if m.CPU != "" {
		machine = append(machine, escape(m.CPU))
	}
	t.linef("RabbitMQ %s, Redis %s, %s", escape(m.RabbitMQ), escape(m.Redis), strings.Join(machine, ", "))
	t.linef("%s, amqp091-go %s, go-redis %s", m.Go, m.AMQPClient, m.RedisClient)
	t.linef("%s queues; unless said otherwise %d messages a run, prefetch %d, concurrency %d, the median of %s", m.QueueType, m.Messages, m.Prefetch, m.Concurrency, count(m.Rounds, "run"))
	t.linef("")
}

func (t *benchText) figure(f bench.Figure) {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if f.PerS > 0 {
		add("%8.0f/s", f.PerS)
	}
	if f.MemoryMB > 0 {
		add("%8.1f MB", f.MemoryMB)
	}
	if f.P50MS > 0 {
		add("p50 %.1f ms  p95 %.1f ms", f.P50MS, f.P95MS)
	}
	if f.P99MS > 0 {
		add("p99 %.1f ms", f.P99MS)
	}
	few := t.fewMessages && f.Messages == 0 || t.fewRounds
	t.short = t.short || f.Ratio > 0 && few
	if f.Ratio > 0 {
		add("%.2f of %s", f.Ratio, f.Against)
	}
	if f.LikeRatio > 0 {
		add("%.2f of %s", f.LikeRatio, f.Like)
	}
	if f.RedisUS > 0 {
		add("Redis %.1f µs", f.RedisUS)
	}
	if f.With != "" {
		add("(%s)", f.With)
	}
	t.linef("%-24s %s", f.Name, strings.Join(parts, "  "))
}

func (t *benchText) foot(took time.Duration) {
	t.linef("")
	if t.short {
		t.linef("a quick look: too short to compare, ratios can come out the other way round (--messages %d --rounds %d, or more)", fairMessages, fairRounds)
	}
	t.linef("measured in %s", event.Short(took.Round(time.Second)))
}
