package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
	"notifylab/internal/servers/serverstest"
	"notifylab/internal/supervise"
	"notifylab/internal/worker"
)

// childOptions makes this test binary a worker process: one that can be killed.
const childOptions = "WORKER_TEST_OPTIONS"

func TestMain(m *testing.M) {
	if text := os.Getenv(childOptions); text != "" {
		if err := child(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	serverstest.Parallel()
	code := serverstest.Main(m)
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// options are what a test says about a worker, in a form that a child can be
// given.
type options struct {
	AMQP, Redis string
	Namespace   notify.Namespace
	State       string            // directory of the slots
	Provider    string            // URL
	Routes      map[string]string // of some users: other providers

	Queue                 broker.QueueType
	Prefetch, Concurrency int
	Attempts, MaxCrashes  int
	Backoff               []time.Duration
	SendTimeout, Lease    time.Duration
	Heartbeat             time.Duration
	AckEarly, ParkUnknown bool
	// Flags are settings that do not come from the lab.
	Flags        *event.Settings
	WithoutRedis bool
	// Asked is told, in this process, what of a session is about to be asked.
	Asked func(what, id string) `json:"-"`
}

func (o options) topology() broker.Topology {
	return broker.Topology{
		Names: broker.Names{Namespace: o.Namespace}, Channels: []notify.Channel{notify.Push},
		Delays: o.Backoff, Type: o.Queue, Expires: 10 * time.Minute,
	}
}

// work wires a worker as the command does, and runs it until ctx ends.
func (o options) work(ctx context.Context, emit func(event.Event), die, suspend func()) error {
	slot, err := idem.TakeSlot(o.State, o.Namespace, notify.Push)
	if err != nil {
		return err
	}
	defer slot.Free()
	sender, err := newByUser(o)
	if err != nil {
		return err
	}
	defer sender.close()
	names := o.topology().Names
	cfg := worker.Config{
		Channel: notify.Push, Slot: slot.Number(), Name: worker.WorkerName("push", slot.Number()),
		Queue: names.Work(notify.Push), DeadLetters: names.DeadLetters(notify.Push),
		Open: func(ctx context.Context) (worker.Session, error) {
			s, err := broker.Open(ctx, broker.SessionConfig{
				Config:   broker.Config{URL: o.AMQP, Name: "push worker", Heartbeat: o.Heartbeat, Timeout: 5 * time.Second},
				Topology: o.topology(), Prefetch: o.Prefetch, PublishTimeout: 5 * time.Second,
			})
			if err != nil {
				return nil, err
			}
			return watched{s, o.Asked}, nil
		},
		Sender: sender,
		Emit:   emit, Die: die, Suspend: suspend, CrashPoints: true,
		Concurrency: o.Concurrency, Attempts: o.Attempts, Backoff: o.Backoff,
		SendTimeout: o.SendTimeout, Retention: retention, MaxCrashes: o.MaxCrashes,
		AckEarly: o.AckEarly, ParkUnknown: o.ParkUnknown,
	}
	client, err := idem.Dial(o.Redis, o.Concurrency+8)
	if err != nil {
		return err
	}
	defer client.Close()
	cfg.Settings = lab.NewSettings(client, o.Namespace).Get
	if o.Flags != nil {
		cfg.Settings = func(context.Context) (event.Settings, error) { return *o.Flags, nil }
	}
	if !o.WithoutRedis {
		cfg.Records = idem.NewStore(client, o.Namespace, slot, o.Lease, retention)
		cfg.Marks = lab.NewMarks(client, o.Namespace)
	}
	return worker.New(cfg).Run(ctx)
}

const retention = time.Hour

// watched is a session that tells what it is asked.
type watched struct {
	*broker.Session
	asked func(what, id string)
}

func (w watched) tell(what string, d *notify.Delivery) {
	if n, err := notify.Decode(d.Body); err == nil && w.asked != nil {
		w.asked(what, n.ID)
	}
}

func (w watched) AckNow(ctx context.Context, d *notify.Delivery) error {
	w.tell("ack now", d)
	return w.Session.AckNow(ctx, d)
}

func (w watched) Park(ctx context.Context, d *notify.Delivery, f notify.Failure) error {
	w.tell("park", d)
	return w.Session.Park(ctx, d, f)
}

// byUser sends to the provider, or to another one that a user has.
type byUser struct {
	clients map[string]*provider.Client // "" for all others
}

func newByUser(o options) (byUser, error) {
	b := byUser{map[string]*provider.Client{}}
	urls := map[string]string{"": o.Provider}
	for user, url := range o.Routes {
		urls[user] = url
	}
	for user, url := range urls {
		// Handlers of an ended session still send, beside those of the next.
		c, err := provider.NewClient(url, provider.ClientOptions{MaxConns: 2 * o.Concurrency})
		if err != nil {
			return b, err
		}
		b.clients[user] = c
	}
	return b, nil
}

func (b byUser) Send(ctx context.Context, a notify.Attempt) notify.Result {
	if a.Notification.User == "panic" {
		panic("in a send")
	}
	if c := b.clients[a.Notification.User]; c != nil {
		return c.Send(ctx, a)
	}
	return b.clients[""].Send(ctx, a)
}

func (b byUser) close() {
	for _, c := range b.clients {
		c.Close()
	}
}

// child is a worker process: it writes events to stdout, dies and stops for real,
// and ends in order at SIGTERM.
func child(text string) error {
	var o options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	lifeline, err := supervise.OpenLifeline()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	go func() {
		<-lifeline.Lost()
		stop()
	}()
	emit := func(e event.Event) { _, _ = os.Stdout.Write(event.Encode(e)) }
	return o.work(ctx, emit, killSelf, stopSelf)
}

func killSelf() {
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	os.Exit(137)
}

func stopSelf() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	<-continued
}

var errNoCrash = errors.New("only a process of its own can crash")

func noCrash() { panic(errNoCrash) }
