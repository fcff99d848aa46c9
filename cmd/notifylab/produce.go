package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/xid"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"notifylab/internal/broker"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
	"notifylab/internal/worker"
)

// A mode is a kind of event that the lessons speak of.
type mode struct {
	user     string
	channels []notify.Channel
	crash    string
}

func modes() map[string]mode {
	return map[string]mode{
		"default":     {"7", notify.Channels(), ""},
		"crash":       {"7", []notify.Channel{notify.Push}, string(worker.BeforeAck)},
		"crash-claim": {"7", []notify.Channel{notify.Push}, string(worker.AfterClaim)},
		"bad-token":   {"999", []notify.Channel{notify.Push}, ""},
	}
}

const window = 4000 // messages in flight

type produceFlags struct {
	mode, crashAt, user, text, id string
	body                          string
	channels                      []string
	count                         int
	rate                          string
	publishTimeout                time.Duration
	connectTimeout                time.Duration
	queueType                     string
	declare                       bool
	userGiven, idGiven, bodyGiven bool
}

// batch is what produce is to publish.
type batch struct {
	notify.Notification
	channels []notify.Channel
	crash    string
	count    int
	every    time.Duration // between events; 0: as fast as it goes
	body     []byte        // what is published in place of the notification; nil: the notification
}

func (a *app) produceCommand() *cobra.Command {
	var p produceFlags
	cmd := &cobra.Command{
		Use:     "produce",
		GroupID: groupRun,
		Short:   "Publish an event: one durable message per channel queue, confirmed",
		Long: `Publishes an event as one durable message per channel queue, and says of each what
became of it: confirmed by the broker, returned (no such queue), or unknown (no
answer; it may be there or not). The producer never talks to a worker.

Modes: default (user 7, push and email), crash (user 7, push; the worker dies after
the send, before the ack), crash-claim (user 7, push; it dies after the claim, before
the send), bad-token (user 999, push: refused each time).

` + crashHelp(),
		Example: `  notifylab produce
  notifylab produce --mode crash
  notifylab produce --user 42 --channel push --text "your pass expires tomorrow"
  notifylab produce --count 1000 --rate 500/s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := cmd.Flags().Changed
			p.userGiven, p.idGiven, p.bodyGiven = given("user"), given("id"), given("body")
			b, err := p.batch()
			if err != nil {
				return err
			}
			return a.produce(cmd.Context(), b, p)
		},
	}
	f := cmd.Flags()
	f.Var(newChoice(&p.mode, "default", "default", "crash", "crash-claim", "bad-token"), "mode", "default, crash, crash-claim or bad-token")
	f.StringVar(&p.crashAt, "crash-at", "", "arm a crash point in the worker, of those above: POINT[,stop][,always]")
	f.StringVar(&p.user, "user", "", "for whom (default: the mode's)")
	f.StringVar(&p.text, "text", defaultText, "what the person reads")
	f.StringArrayVar(&p.channels, "channel", nil, "on which channel; may be repeated (default: the mode's)")
	f.StringVar(&p.id, "id", "", "the notification's id (default: a new one); with --count a number is put behind it")
	f.StringVar(&p.body, "body", "", "publish these bytes in place of a notification, such as what no worker can read")
	f.IntVar(&p.count, "count", 1, "how many events")
	f.StringVar(&p.rate, "rate", "", "how many events a second: 500/s (default: as fast as the broker confirms)")
	f.DurationVar(&p.publishTimeout, "publish-timeout", 5*time.Second, "how long a confirm may take")
	f.DurationVar(&p.connectTimeout, "connect-timeout", 5*time.Second, "how long connecting may take")
	f.Var(newChoice(&p.queueType, "quorum", "quorum", "classic"), "queue-type", "quorum or classic, as the workers have it")
	f.BoolVar(&p.declare, "declare", true, "make queues that are missing")
	_ = cmd.RegisterFlagCompletionFunc("crash-at", cobra.FixedCompletions(pointNames(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("channel", completeChannels)
	_ = cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{"default", "crash", "crash-claim", "bad-token"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// crashHelp lists what --crash-at takes.
func crashHelp() string {
	var b strings.Builder
	b.WriteString("Crash points, in the order in which a delivery meets them, and where the worker dies:\n\n")
	for _, p := range worker.Points() {
		fmt.Fprintf(&b, "  %-13s  %s\n", p, where(string(p)))
	}
	b.WriteString(`
A claim is made with idempotency on; a copy is a retry or a dead letter. POINT fires
once for each channel. POINT,stop stops the worker there, as kill -STOP does, until
kill -CONT wakes it; POINT,always fires at every delivery; both: POINT,stop,always.`)
	return b.String()
}

func pointNames() []string {
	var names []string
	for _, p := range worker.Points() {
		names = append(names, string(p))
	}
	return names
}

// batch reads the flags.
func (p produceFlags) batch() (batch, error) {
	m := modes()[p.mode]
	b := batch{channels: m.channels, crash: m.crash, count: p.count}
	if p.crashAt != "" {
		arming, err := lab.ParseArming(p.crashAt, worker.Points())
		if err != nil {
			return b, usagef("--crash-at: %w%s", err, nearestOf(p.crashAt, pointNames()))
		}
		b.crash = arming.String()
	}
	if len(p.channels) > 0 {
		b.channels = nil
		for _, name := range p.channels {
			if err := checkChannel(name); err != nil {
				return b, fmt.Errorf("--channel: %w", err)
			}
			if c := notify.Channel(name); !slices.Contains(b.channels, c) {
				b.channels = append(b.channels, c)
			}
		}
	}
	if p.count < 1 {
		return b, usagef("--count %d: at least 1", p.count)
	}
	if p.rate != "" {
		every, err := parseRate(p.rate)
		if err != nil {
			return b, err
		}
		b.every = every
	}
	if err := moreThanZero("publish-timeout", p.publishTimeout, "connect-timeout", p.connectTimeout); err != nil {
		return b, err
	}
	b.Notification = notify.Notification{ID: p.id, User: m.user, Text: p.text}
	if p.userGiven {
		b.User = p.user
	}
	if p.bodyGiven {
		b.body = []byte(p.body)
	}
	check := b.Notification
	if !p.idGiven {
		check.ID = xid.New().String()
	} else if p.count > 1 {
		check.ID = fmt.Sprintf("%s-%d", p.id, p.count)
	}
	if err := check.Validate(); err != nil {
		return b, usagef("%w", err)
	}
	return b, nil
}

// parseRate reads events a second, 500/s, and returns the time between two.
func parseRate(rate string) (time.Duration, error) {
	n, err := strconv.ParseFloat(strings.TrimSuffix(rate, "/s"), 64)
	if err != nil || !(n >= 0.001 && n <= 1e6) { // it can be NaN
		return 0, usagef("--rate %q: want events a second, such as 500/s", rate)
	}
	return time.Duration(float64(time.Second) / n), nil
}

// nth returns the n-th notification, from 1.
func (b batch) nth(n int) notify.Notification {
	m := b.Notification
	switch {
	case m.ID == "":
		m.ID = xid.New().String()
	case b.count > 1:
		m.ID += "-" + strconv.Itoa(n)
	}
	return m
}

// message returns n as a message that has yet to be told its queue: it has the same
// bytes for each.
func (b batch) message(n notify.Notification) broker.Message {
	m := broker.Message{ID: n.ID, Body: b.body, Crash: b.crash}
	if m.Body == nil {
		m.Body = notify.Encode(n)
	}
	return m
}

// tally is produce's closing line.
type tally struct {
	Kind      string `json:"kind"` // produced
	Queued    int    `json:"queued"`
	Confirmed int    `json:"confirmed"`
	Returned  int    `json:"returned"`
	Unknown   int    `json:"unknown"`
	ElapsedMS int64  `json:"elapsed_ms"`
}

// fewMessages is up to how many are told of one by one, and not only what went
// wrong.
const fewMessages = 100

// defaultText is what a person reads if nobody says what.
const defaultText = "your pass expires soon"

func (a *app) produce(ctx context.Context, b batch, p produceFlags) error {
	ctx, cancel, done := a.signals(ctx)
	defer done()
	out := a.printer(cancel)
	conn, err := a.dialBroker(ctx, "producer", p.connectTimeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	names := broker.Names{Namespace: a.ns()}
	if p.declare {
		declaring, cancel := answerWithin(ctx, p.publishTimeout)
		defer cancel()
		t := broker.Topology{Names: names, Channels: b.channels, Type: broker.QueueType(p.queueType)}
		if err := conn.Declare(declaring, t); err != nil {
			return because(ctx, unavailableError{err})
		}
		defer a.noteQueues(t)()
	}
	publisher, err := conn.Publisher(context.WithoutCancel(ctx), window)
	if err != nil {
		return because(ctx, unavailableError{err})
	}

	progress := a.progress(b.count, "events", b.count > fewMessages)
	run := &production{
		batch: b, publisher: publisher, timeout: p.publishTimeout, flights: make(chan flight, window), pid: os.Getpid(),
		tell:     out.events,
		all:      out.json || b.count*len(b.channels) <= fewMessages,
		progress: func(n int) { _ = progress.Add(n) },
	}
	for _, c := range b.channels {
		run.queues = append(run.queues, names.Work(c))
	}
	t := run.run(ctx)
	_ = progress.Finish()
	if out.json {
		out.object(t)
	} else {
		out.linef("%d queued, %d confirmed, %d returned, %d unknown, %.1fs", t.Queued, t.Confirmed, t.Returned, t.Unknown, float64(t.ElapsedMS)/1000)
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case run.err != nil:
		return statusError{exitFinding, fmt.Sprintf("stopped after %d of %d events: %v", t.Queued, b.count, run.err)}
	case t.Returned+t.Unknown > 0:
		return statusError{exitFinding, ""}
	}
	return nil
}

// dialBroker connects for a command that is to finish by itself.
func (a *app) dialBroker(ctx context.Context, name string, timeout time.Duration) (conn *broker.Conn, err error) {
	err = patiently(ctx, a.stderr, 0, func(ctx context.Context) error {
		conn, err = broker.Dial(ctx, a.broker(name, 10*time.Second, timeout))
		return err
	})
	return conn, err
}

// progress is a bar on a terminal, and nothing elsewhere.
func (a *app) progress(count int, what string, wanted bool) *progressbar.ProgressBar {
	visible := wanted && a.output == "text" && isTerminal(a.stderr)
	return progressbar.NewOptions(count,
		progressbar.OptionSetWriter(a.stderr), progressbar.OptionSetVisibility(visible),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString(what),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
}
