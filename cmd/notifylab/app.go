package main

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
	"notifylab/internal/servers"
)

// process is what a program can do to itself.
type process struct {
	stdout, stderr *os.File
	exit           func(status int)
	die            func() // as kill -9 does
	suspend        func() // as kill -STOP does; returns when continued
}

// Defaults of the servers' addresses.
const (
	defaultAMQP  = "amqp://guest:guest@localhost:5672/"
	defaultRedis = "redis://localhost:6379/0"
)

// app is one run of the program: the global flags and what commands share.
type app struct {
	process
	amqpURL, redisURL string
	amqpGiven         bool // by flag or environment
	redisGiven        bool
	namespace         string
	output            string
	color             string
	verbose           bool
	stateDir          string
	started           bool // flags and arguments are accepted: errors are no longer about usage

	mu     sync.Mutex
	second func(os.Signal) // what a second Ctrl-C does
}

// urls settles where the servers are: flag, then environment, then, if neither is given
// by these, those that servers up has started, then localhost. An address that does not
// parse is named by where it came from, and not shown, since it may hold a password.
func (a *app) urls() error {
	settle := func(value *string, given *bool, flag, env string, check func(string) (string, error)) error {
		from := "--" + flag
		if *value == "" {
			from, *value = "$"+env, os.Getenv(env)
		}
		if *given = *value != ""; !*given {
			return nil
		}
		if _, err := check(*value); err != nil {
			return usagef("%s: %w", from, err)
		}
		return nil
	}
	if err := settle(&a.amqpURL, &a.amqpGiven, "amqp-url", "AMQP_URL", broker.Addr); err != nil {
		return err
	}
	if err := settle(&a.redisURL, &a.redisGiven, "redis-url", "REDIS_URL", idem.Addr); err != nil {
		return err
	}
	up, _ := servers.Running(a.state())
	a.orElse(up)
	return nil
}

// orElse fills in what was not given: both from the pair that is up, if there is one,
// and never one of them, since then what belongs together would lie apart.
func (a *app) orElse(up servers.Info) {
	if !a.amqpGiven && !a.redisGiven {
		a.amqpURL, a.redisURL = up.AMQPURL, up.RedisURL
	}
	a.amqpURL, a.redisURL = cmp.Or(a.amqpURL, defaultAMQP), cmp.Or(a.redisURL, defaultRedis)
}

// where says at which servers.
func (a *app) where() string {
	amqp, _ := broker.Addr(a.amqpURL) // they parse: see urls
	redis, _ := idem.Addr(a.redisURL)
	return "at " + amqp + " and " + redis
}

// ns returns the namespace that was asked for; the flag was checked before.
func (a *app) ns() notify.Namespace { return notify.Namespace(a.namespace) }

// broker is how to reach RabbitMQ; name is shown by its tools.
func (a *app) broker(name string, heartbeat, timeout time.Duration) broker.Config {
	return broker.Config{URL: a.amqpURL, Name: "notifylab " + name, Heartbeat: heartbeat, Timeout: timeout}
}

// state returns the directory for what outlives a run: locks of slots, and what
// servers up has started.
func (a *app) state() string {
	if a.stateDir != "" {
		return a.stateDir
	}
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "notifylab")
	}
	return filepath.Join(os.TempDir(), "notifylab-"+strconv.Itoa(os.Getuid()))
}

// printer makes the printer of this run. When its output can't be written any more,
// cancel is called with the reason: errOutputClosed if nobody reads.
func (a *app) printer(cancel context.CancelCauseFunc) *printer {
	return &printer{
		w:       event.NewWriter(a.stdout),
		json:    a.output == "json",
		verbose: a.verbose,
		palette: newPalette(colours(a.color, a.stdout)),
		ns:      a.ns(),
		closed:  func(err error) { cancel(outputError(err)) },
	}
}

// onSecond sets what a second signal does. Without it, it ends the program.
func (a *app) onSecond(do func(os.Signal)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.second = do
}

// signals returns a context that SIGINT, SIGTERM and what else is named end, with
// interrupted as its cause. A second one does what onSecond says; the same within
// [doubled] is the first once more. A write to a pipe that nobody reads
// is an error then and not a signal, so that there is time to clean up.
func (a *app) signals(ctx context.Context, more ...os.Signal) (context.Context, context.CancelCauseFunc, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	// Taken and dropped: what is ignored stays so in the programs that we start.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	came := make(chan os.Signal, 2)
	for _, s := range append(more, syscall.SIGINT, syscall.SIGTERM) {
		if s != syscall.SIGHUP || !signal.Ignored(s) { // nohup
			signal.Notify(came, s)
		}
	}
	done := make(chan struct{})
	go func() {
		var first firstSignal
		for {
			select {
			case s := <-came:
				switch {
				case ctx.Err() == nil:
					first = firstSignal{s, time.Now()}
					cancel(interrupted{s})
				case !first.again(s, time.Now()):
					a.secondTime(s)
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, cancel, func() {
		signal.Stop(came)
		signal.Stop(pipes)
		close(done)
		cancel(nil)
	}
}

// A firstSignal is what came, and when.
type firstSignal struct {
	os.Signal
	at time.Time
}

// again says whether s is the same one once more.
func (f firstSignal) again(s os.Signal, now time.Time) bool {
	return s == f.Signal && now.Sub(f.at) < doubled
}

// doubled is within what time the same signal comes twice from one cause: a terminal and
// timeout, say, both pass a Ctrl-C on.
const doubled = 300 * time.Millisecond

func (a *app) secondTime(s os.Signal) {
	a.mu.Lock()
	do := a.second
	a.mu.Unlock()
	if do != nil {
		do(s)
		return
	}
	a.exit(exitStatus(interrupted{s}))
}
