package main

import (
	"slices"
	"time"

	"github.com/spf13/pflag"

	"notifylab/internal/provider"
	"notifylab/internal/worker"
)

// workerFlags are the flags of one worker process.
type workerFlags struct {
	prefetch, concurrency                     int
	attempts, maxCrashes                      int
	backoff                                   []time.Duration
	sendTimeout, lease, retention             time.Duration
	publishTimeout, connectTimeout, heartbeat time.Duration
	grace                                     time.Duration
	queueType                                 string
	queueExpires, keyExpires                  time.Duration
	declare, crashPoints, sayPid              bool
	ack, onUnknown, events, journal           string
	providerURL, metricsListen                string
	idempotency, claimLease, providerKey      string
	without                                   string // a guard
}

func (w *workerFlags) register(f *pflag.FlagSet) {
	f.IntVar(&w.prefetch, "prefetch", 16, "deliveries that may be unsettled at once")
	f.IntVar(&w.concurrency, "concurrency", 16, "deliveries handled at once, at most the prefetch")
	f.IntVar(&w.attempts, "attempts", 3, "sends before a message is parked")
	f.DurationSliceVar(&w.backoff, "backoff", []time.Duration{500 * time.Millisecond, time.Second}, "waits between attempts; the last one repeats")
	f.IntVar(&w.maxCrashes, "max-crashes", 3, "crashes that are counted before a message is parked unhandled")
	f.DurationVar(&w.sendTimeout, "send-timeout", 5*time.Second, "how long one send may take")
	f.DurationVar(&w.lease, "lease", 10*time.Second, "how long a claim is pending")
	f.DurationVar(&w.retention, "retention", 24*time.Hour, "how long claimed and done are remembered")
	f.DurationVar(&w.publishTimeout, "publish-timeout", 5*time.Second, "how long a confirm or a round trip may take")
	f.DurationVar(&w.connectTimeout, "connect-timeout", 30*time.Second, "how long to wait for servers that do not answer at the start")
	f.DurationVar(&w.heartbeat, "heartbeat", 10*time.Second, "heartbeat of the connections to RabbitMQ")
	f.DurationVar(&w.grace, "grace", 10*time.Second, "how long what is in hand may take after SIGTERM")
	f.Var(newChoice(&w.queueType, "quorum", "quorum", "classic"), "queue-type", "quorum, or classic: no delivery limit, so no last resort against poison, and about half as fast")
	f.DurationVar(&w.queueExpires, "queue-expires", 0, "let the broker delete queues unused for that long")
	f.BoolVar(&w.declare, "declare", true, "make queues that are missing")
	f.BoolVar(&w.crashPoints, "crash-points", true, "let messages arm crash points")
	f.Var(newChoice(&w.ack, "late", "late", "early"), "ack", "late: after the work; early: before anything else, so that a crash loses what is in hand")
	f.Var(newChoice(&w.onUnknown, "retry", "retry", "park"), "on-unknown", "a send without an answer: retry it, or park it")
	f.Var(newChoice(&w.events, "full", "full", "summary", "none"), "events", "which lines to print: full, summary (outcomes only) or none")
	f.Var(newChoice(&w.journal, "on", "on", "off"), "journal", "write events to the lab's journal in Redis, too, for notifylab events: on or off")
	f.StringVar(&w.providerURL, "provider-url", "", "POST to this URL; default: a built-in provider that accepts")
	for _, s := range []struct {
		value *string
		name  string
	}{{&w.idempotency, "idempotency"}, {&w.claimLease, "claim-lease"}, {&w.providerKey, "provider-key"}} {
		f.Var(newSwitch(s.value), s.name, "on or off; default: as the lab's settings say, per message")
	}
	f.DurationVar(&w.keyExpires, "key-expires", 0, "let Redis forget the journal and notes after that long")
	f.StringVar(&w.metricsListen, "metrics-listen", "", "offer /metrics, /healthz and /readyz at this address")
	f.Var(newChoice(&w.without, "", guardNames()...), "break", "leave a guard out, to see that it is missed")
	f.BoolVar(&w.sayPid, "say-pid", false, "tell the provider who calls")
	_ = f.MarkHidden("say-pid")
	_ = f.MarkHidden("break")
	_ = f.MarkHidden("queue-expires")
	_ = f.MarkHidden("key-expires")
}

func (w *workerFlags) check() error {
	switch {
	case w.prefetch < 1:
		return usagef("--prefetch %d: at least 1; 0 would mean no limit, and one worker would take the whole queue", w.prefetch)
	case w.concurrency < 1:
		return usagef("--concurrency %d: at least 1", w.concurrency)
	case w.concurrency > w.prefetch:
		return usagef("--concurrency %d is more than --prefetch %d: the broker hands over no more than that at once", w.concurrency, w.prefetch)
	case w.prefetch > 65535:
		return usagef("--prefetch %d: at most 65535", w.prefetch)
	case w.attempts < 1:
		return usagef("--attempts %d: at least 1", w.attempts)
	case w.maxCrashes < 1:
		return usagef("--max-crashes %d: at least 1", w.maxCrashes)
	case len(w.backoff) == 0:
		return usagef("--backoff: at least one duration")
	case w.grace < 0:
		return usagef("--grace %v: at least 0", w.grace)
	case w.retention < w.lease:
		return usagef("--retention %v is shorter than --lease %v", w.retention, w.lease)
	case w.heartbeat < time.Second:
		return usagef("--heartbeat %v: at least 1s", w.heartbeat)
	}
	if err := moreThanZero("send-timeout", w.sendTimeout, "publish-timeout", w.publishTimeout, "connect-timeout", w.connectTimeout); err != nil {
		return err
	}
	for _, d := range w.backoff {
		if d < time.Millisecond || d%time.Millisecond != 0 {
			return usagef("--backoff %v: whole milliseconds, at least one", d)
		}
	}
	if w.providerURL != "" {
		client, err := provider.NewClient(w.providerURL, provider.ClientOptions{}) // calls nobody
		if err != nil {
			return usagef("--provider-url: %w", err)
		}
		client.Close()
	}
	if w.metricsListen != "" {
		if err := checkListen("metrics-listen", w.metricsListen, "127.0.0.1:9100"); err != nil {
			return err
		}
	}
	if err := worker.CheckLease(w.lease, w.sendTimeout); err != nil {
		return usagef("--lease: %w", err)
	}
	return nil
}

// moreThanZero checks durations, given as pairs of a flag's name and its value.
func moreThanZero(flags ...any) error {
	for i := 0; i < len(flags); i += 2 {
		if flags[i+1].(time.Duration) <= 0 {
			return usagef("--%s %v: more than 0", flags[i], flags[i+1])
		}
	}
	return nil
}

// needsRedis says whether any of the settings can be on.
func (w *workerFlags) needsRedis() bool {
	return w.ack != "early" && (w.idempotency != "off" || w.claimLease != "off" || w.providerKey != "off")
}

// hideAllBut hides flags that a command has and does not mean.
func hideAllBut(names ...string) func(*pflag.Flag) {
	return func(f *pflag.Flag) { f.Hidden = !slices.Contains(names, f.Name) }
}
