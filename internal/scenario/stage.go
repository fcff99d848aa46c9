package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
	"notifylab/internal/servers"
	"notifylab/internal/supervise"
)

// Config is what a run of a scenario needs to know of the world.
type Config struct {
	AMQPURL, RedisURL string
	// Pair is the servers at these addresses if they may be harmed, else nil.
	Pair *servers.Pair
	// Worker is the command of a worker of a channel, without the flags that
	// the stage adds: its own program's, and Env its environment, by which it
	// gets the servers' addresses.
	Worker func(notify.Channel) []string
	Env    []string
	// Program is the command of the program itself, for its other commands.
	Program []string

	// Namespace is of this run alone, and not the empty one: all that is in it
	// is deleted in the end.
	Namespace notify.Namespace
	Settings  event.Settings
	Seed      int64
	Keep      bool // leave queues and keys
	Spike     int  // events of direct-call's spike
	// Concurrency is how many deliveries each worker handles at once; 0: one. It has so
	// many in hand in a cell of the matrix, and twice that in a soak.
	Concurrency int
	Timeout     time.Duration // of the run, from when its servers are ready
	// Emit gets every event, one at a time, in the order in which they are
	// recorded.
	Emit func(event.Event)
}

// A stage is what a scenario plays on, in a namespace of its own.
type stage struct {
	Config
	conn      *broker.Conn
	publisher *broker.Publisher
	redis     idem.Client
	provider  *provider.Server
	listening *provider.Running
	workers   *supervise.Supervisor
	history   event.History
	topology  broker.Topology
	dir       string // the workers' state
	began     time.Time
	ours      bool                  // the namespace, to be cleaned up
	harmed    bool                  // the servers, and not yet as they were
	beside    []notify.Notification // in the worker's hand with the victim
	onCrash   func(context.Context) error
	giveUp    context.CancelCauseFunc // ends the play
	after     []func()                // called when the workers are gone

	// What a play has added to the stage: how it is taken into the record, and undone.
	also []func(context.Context, *Record) error
	undo []func(context.Context) error

	telling sync.Mutex // held around Emit

	mu      sync.Mutex            // guards what follows: the workers' events come at any time
	quiet   map[string]event.Kind // ids of which text shows only that
	atCrash map[Subject]Seen      // what was found while a worker lay dead
	names   map[string]notify.Notification
	queuing map[Subject]chan struct{} // closed when the broker's word was passed on
	over    bool                      // the play: its workers are stopped
}

// Limits of what a stage leaves behind if it is killed: its queues go when nobody
// used them for so long, its keys after an hour.
const (
	leastExpiry = 10 * time.Minute
	keyMemory   = time.Hour
)

// Limits of what the stage does whether or not the run has been ended: to cut it
// short would leave something behind.
const (
	declareLimit = 10 * time.Second
	cleanLimit   = 10 * time.Second
)

// delays are the workers' retry delays.
func delays() []time.Duration { return []time.Duration{500 * time.Millisecond, time.Second} }

// setUp puts up a stage with queues for some channels. After an error nothing is
// left of it but its history.
func setUp(ctx context.Context, cfg Config, channels []notify.Channel) (*stage, error) {
	s, err := makeRoom(ctx, cfg, channels)
	if err != nil {
		return s, err
	}
	return s, s.open(provider.Options{Emit: s.emitDetail}, supervise.Config{
		Sink:     s.sink,
		Settled:  func(e event.Event) bool { return e.Kind == event.Acked },
		Hopeless: func(status int) bool { return status == 64 || status == 69 },
	})
}

// makeRoom makes what a stage has on the servers: connections, queues, settings.
func makeRoom(ctx context.Context, cfg Config, channels []notify.Channel) (s *stage, err error) {
	s = &stage{
		Config: cfg, began: time.Now(),
		quiet: map[string]event.Kind{}, atCrash: map[Subject]Seen{},
		names: map[string]notify.Notification{}, queuing: map[Subject]chan struct{}{},
	}
	if cfg.Namespace == "" {
		return s, errors.New("a scenario needs a namespace of its own")
	}
	s.topology = broker.Topology{
		Names: broker.Names{Namespace: cfg.Namespace}, Channels: channels,
		Delays: delays(), Type: broker.Quorum, Expires: s.expiry(),
	}
	defer func() {
		if err != nil {
			_ = s.tearDown() // whatever is wrong with the servers was said
		}
	}()
	if s.dir, err = os.MkdirTemp("", "notifylab-scenario-"+string(cfg.Namespace)+"-"); err != nil {
		return s, fmt.Errorf("make a directory for the workers' locks: %w", err)
	}
	if err := s.connect(ctx); err != nil {
		return s, err
	}
	if err := s.declare(ctx); err != nil {
		return s, err
	}
	return s, s.set(ctx, cfg.Settings)
}

// open puts up the provider and the workers' supervisor.
func (s *stage) open(o provider.Options, w supervise.Config) (err error) {
	s.provider = provider.New(o)
	if s.listening, err = s.provider.Listen(""); err != nil {
		_ = s.tearDown()
		return err
	}
	s.workers = supervise.New(w)
	return nil
}

func (s *stage) elapsed() time.Duration { return time.Since(s.began) }

func (s *stage) expiry() time.Duration {
	if s.Keep {
		return 0
	}
	return max(leastExpiry, 2*s.Timeout)
}

func (s *stage) connect(ctx context.Context) (err error) {
	if s.redis, err = idem.Dial(s.RedisURL, 4); err != nil {
		return err
	}
	if err := idem.Ping(ctx, s.redis, s.RedisURL); err != nil {
		return err
	}
	return s.connectBroker(ctx)
}

func (s *stage) connectBroker(ctx context.Context) (err error) {
	s.conn, err = broker.Dial(ctx, broker.Config{URL: s.AMQPURL, Name: "notifylab scenario " + string(s.Namespace), Heartbeat: 10 * time.Second, Timeout: 5 * time.Second})
	if err != nil {
		return err
	}
	s.publisher, err = s.conn.Publisher(context.WithoutCancel(ctx), window)
	return err
}

// declare makes the queues. It is not cut short when ctx ends: what goes on
// declaring then would do so behind the clean-up's back.
func (s *stage) declare(ctx context.Context) error {
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), declareLimit)
	defer cancel()
	err := s.conn.Declare(whole, s.topology)
	var conflict *broker.ConflictError
	s.ours = !errors.As(err, &conflict) // else somebody has kept something there
	if err != nil {
		return err
	}
	return context.Cause(ctx)
}

// set writes the run's settings where its workers read them.
func (s *stage) set(ctx context.Context, v event.Settings) error {
	err := lab.NewSettings(s.redis, s.Namespace).Set(ctx, map[string]bool{
		"idempotency": v.Idempotency, "claim-lease": v.ClaimLease, "provider-key": v.ProviderKey,
	})
	if err != nil {
		return err
	}
	if err := s.redis.Expire(ctx, s.Namespace.Key("lab:flags"), max(keyMemory, s.expiry())).Err(); err != nil {
		return fmt.Errorf("let the settings expire: %w", err)
	}
	return nil
}

// stopWorkers ends the play.
func (s *stage) stopWorkers() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	_ = s.workers.Stop() // who was given up has been said
}

// tearDown ends what runs and, unless it is to be kept or its servers are not as
// they were, deletes the namespace. It has its own time for that, which begins when
// the workers are gone: they may take all of their grace.
func (s *stage) tearDown() error {
	if s.workers != nil {
		s.stopWorkers()
	}
	for _, do := range s.after {
		do()
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanLimit)
	defer cancel()
	var errs []error
	if s.listening != nil {
		errs = append(errs, s.listening.Close(ctx))
	}
	if s.conn != nil {
		if s.cleans() {
			errs = append(errs, s.conn.Delete(ctx, s.topology.QueueNames()...))
			for _, undo := range s.undo {
				errs = append(errs, undo(ctx))
			}
		}
		if err := s.conn.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close the connection to RabbitMQ at %s: %w", s.conn.Addr(), err))
		}
	}
	if s.redis != nil {
		if s.cleans() {
			_, err := idem.Forget(ctx, s.redis, s.Namespace)
			errs = append(errs, err)
		}
		errs = append(errs, s.redis.Close())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

func (s *stage) cleans() bool { return s.ours && !s.Keep && !s.harmed }
