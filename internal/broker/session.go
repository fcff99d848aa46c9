package broker

import (
	"context"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"notifylab/internal/notify"
	"notifylab/internal/rounds"
)

// SessionConfig is what a session consumes, and how.
type SessionConfig struct {
	Config
	Topology Topology // of one channel, with its retry delays
	Declare  bool     // make the queues that are missing
	Prefetch int      // deliveries that may be unsettled at once, 1 to 65535
	// PublishTimeout bounds the declaring, the wait for a copy's confirm and for a round
	// trip; a broker that is slower than that is given up.
	PublishTimeout time.Duration
}

// A Session takes deliveries of one work queue and settles them. It ends, once
// and for good, when anything on either of its connections goes wrong; see
// [Session.Over].
type Session struct {
	topology       Topology
	channel        notify.Channel
	prefetch       int
	publishTimeout time.Duration

	conn, copyConn *Conn
	ch             *amqp.Channel
	copies         *Publisher
	held           holdup
	acks           *acks
	deliveries     chan *notify.Delivery
	trips          *rounds.Rounds[struct{}] // on ch, there and back
	calling        sync.Mutex               // the library matches answers on ch by their type
	pumped         chan struct{}            // closed when no more deliveries arrive

	cancelled  chan struct{}
	cancelOnce sync.Once
	over       chan struct{}
	endOnce    sync.Once

	err     error          // why it is over; written before over is closed
	running sync.WaitGroup // the session's goroutines
	stop    context.CancelFunc
}

const consumerTag = "worker"

// Open connects, declares if asked to, and starts to consume. ctx bounds the
// opening only.
func Open(ctx context.Context, cfg SessionConfig) (*Session, error) {
	if len(cfg.Topology.Channels) != 1 {
		return nil, fmt.Errorf("a session consumes one channel, not %d", len(cfg.Topology.Channels))
	}
	life, stop := context.WithCancel(context.Background())
	s := &Session{
		topology:       cfg.Topology,
		channel:        cfg.Topology.Channels[0],
		prefetch:       cfg.Prefetch,
		publishTimeout: cfg.PublishTimeout,
		deliveries:     make(chan *notify.Delivery, max(0, cfg.Prefetch)), // all there can be: see InHand
		pumped:         make(chan struct{}),
		cancelled:      make(chan struct{}),
		over:           make(chan struct{}),
		stop:           stop,
	}
	s.trips = rounds.New(s.trip)
	s.acks = newAcks(cfg.Prefetch, func() bool { return len(s.deliveries) > 0 })
	if err := s.connect(ctx, cfg.Config); err != nil {
		s.closeConnections()
		return nil, err
	}
	unbound := context.AfterFunc(ctx, func() { // no call below takes a context
		s.conn.cut()
		s.copyConn.cut()
	})
	err := s.consume(ctx, life, cfg)
	if !unbound() {
		err = &UnreachableError{Addr: s.conn.addr, Err: context.Cause(ctx)}
	}
	if err != nil {
		err = s.copyConn.lost(s.conn.lost(err))
		s.end(err)
		s.closeConnections()
		s.running.Wait()
		return nil, err
	}
	return s, nil
}

func (s *Session) connect(ctx context.Context, cfg Config) error {
	var g errgroup.Group
	dial := func(to **Conn, name string) func() error {
		return func() (err error) {
			cfg := cfg
			cfg.Name += name
			*to, err = Dial(ctx, cfg)
			return err
		}
	}
	g.Go(dial(&s.conn, ""))
	g.Go(dial(&s.copyConn, " copies"))
	return g.Wait()
}

func (s *Session) consume(ctx, life context.Context, cfg SessionConfig) error {
	if cfg.Declare {
		// Whoever gives up here has been handed nothing yet, and nothing is counted.
		declaring, cancel := context.WithTimeoutCause(ctx, cfg.PublishTimeout, fmt.Errorf("no answer within %v", cfg.PublishTimeout))
		defer cancel()
		if err := s.conn.Declare(declaring, cfg.Topology); err != nil {
			return err
		}
	}
	var err error
	if s.copies, err = s.copyConn.Publisher(life, cfg.Prefetch); err != nil {
		return err
	}
	if s.ch, err = s.conn.amqp.Channel(); err != nil {
		return fmt.Errorf("open channel: %w", err)
	}
	closed := s.ch.NotifyClose(make(chan *amqp.Error, 1))
	cancelled := s.ch.NotifyCancel(make(chan string, 1))
	if err := s.ch.Qos(cfg.Prefetch, 0, false); err != nil {
		return fmt.Errorf("set prefetch: %w", err)
	}
	work := cfg.Topology.Work(s.channel)
	in, err := s.ch.Consume(work, consumerTag,
		false, // auto-ack
		false, // exclusive
		false, // no-local, not supported by RabbitMQ
		false, // no-wait
		nil)
	if err != nil {
		return fmt.Errorf("consume %s: %w", work, err)
	}
	s.running.Go(func() { s.watch(closed, cancelled) })
	s.running.Go(func() { s.pump(in) })
	s.running.Go(func() {
		if err := s.acks.run(s.over, s.writeAck); err != nil {
			s.end(err)
		}
	})
	return nil
}

// watch ends the session when the broker or the network does, and cuts its
// connections when it is over, whyever: what was not acked goes back to its
// queue then.
func (s *Session) watch(closed <-chan *amqp.Error, cancelled <-chan string) {
	select {
	case e := <-closed:
		s.end(ended(e))
	case _, ok := <-cancelled:
		if ok {
			s.end(fmt.Errorf("consumer cancelled: %s was deleted or moved", s.topology.Work(s.channel)))
		} else { // closed with the channel; closed says why
			s.end(ended(<-closed))
		}
	case <-s.copies.Over():
		s.end(fmt.Errorf("copies: %w", s.copies.Err()))
	case <-s.over:
	}
	s.closeConnections()
}

// pump hands deliveries on, and notes those that come when nobody takes them any
// more: they are given back.
func (s *Session) pump(in <-chan amqp.Delivery) {
	defer close(s.pumped)
	s.handOver(in)
	for range len(s.deliveries) { // nobody has begun these
		select {
		case <-s.deliveries:
		default:
		}
	}
	close(s.deliveries)
	for range in {
		s.acks.opened()
	}
}

// handOver lets the acks know of each delivery before anyone can settle it.
func (s *Session) handOver(in <-chan amqp.Delivery) {
	for {
		select {
		case d, ok := <-in:
			if !ok {
				return
			}
			s.acks.opened()
			select {
			case s.deliveries <- received(d):
				continue
			case <-s.cancelled:
			case <-s.over:
			}
			return
		case <-s.cancelled:
			return
		case <-s.over:
			return
		}
	}
}

// end ends the session with err, the first time.
func (s *Session) end(err error) {
	s.endOnce.Do(func() {
		s.err = err
		close(s.over)
	})
}

func (s *Session) closeConnections() {
	s.stop()
	var closing sync.WaitGroup
	for _, c := range []*Conn{s.conn, s.copyConn} {
		if c != nil {
			closing.Go(func() { c.Close() })
		}
	}
	closing.Wait()
}

// Deliveries gives what the broker hands over, and is closed after
// [Session.Cancel] or when the session is over.
func (s *Session) Deliveries() <-chan *notify.Delivery { return s.deliveries }

// Over is closed when the session has ended. Nothing that it handed over can
// be settled then; the broker hands it over again.
func (s *Session) Over() <-chan struct{} { return s.over }

// Err says why the session is over; nil before.
func (s *Session) Err() error {
	select {
	case <-s.over:
		return s.err
	default:
		return nil
	}
}
