package api

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/notify"
)

// A link is the api's connections to the broker, made anew when they have ended:
// one to publish, one for everything else, since the broker may block the first.
type link struct {
	dial     func(ctx context.Context, name string) (*broker.Conn, error)
	topology broker.Topology
	declared func(context.Context, broker.Topology) // notes it
	publish  *shared[publishing]
	desk     *shared[*broker.Conn]
	stale    atomic.Bool // a queue is gone: they are declared again before the next publish
}

// A publishing is a connection to publish on.
type publishing struct {
	conn *broker.Conn
	*broker.Publisher
}

// errAway says that there is no connection.
var errAway = errors.New("RabbitMQ is away")

const (
	window   = 4000            // messages in flight
	dialTime = 4 * time.Second // for connecting, the queues included
)

func newLink(dial func(context.Context, string) (*broker.Conn, error), t broker.Topology, declared func(context.Context, broker.Topology)) *link {
	l := &link{dial: dial, topology: t, declared: declared}
	l.publish = &shared[publishing]{
		limit: dialTime, make: l.connect,
		lives: func(p publishing) bool { return !isClosed(p.Over()) },
		close: func(p publishing) { p.conn.Close() },
	}
	l.desk = &shared[*broker.Conn]{
		limit: dialTime, make: func(ctx context.Context) (*broker.Conn, error) { return l.dial(ctx, "api desk") },
		lives: func(c *broker.Conn) bool { return !c.Closed() },
		close: func(c *broker.Conn) { c.Close() },
	}
	return l
}

func isClosed(over <-chan struct{}) bool {
	select {
	case <-over:
		return true
	default:
		return false
	}
}

// connect makes a connection to publish on, and the queues.
func (l *link) connect(ctx context.Context) (publishing, error) {
	conn, err := l.dial(ctx, "api")
	if err != nil {
		return publishing{}, err
	}
	var p *broker.Publisher
	if err = l.declare(ctx, conn); err == nil {
		p, err = conn.Publisher(context.WithoutCancel(ctx), window)
	}
	if err != nil {
		conn.Close()
		return publishing{}, err
	}
	return publishing{conn, p}, nil
}

func (l *link) declare(ctx context.Context, conn *broker.Conn) error {
	l.stale.Store(false)
	if err := conn.Declare(ctx, l.topology); err != nil {
		l.stale.Store(true)
		return err
	}
	l.declared(ctx, l.topology)
	return nil
}

// current returns a publisher that lives and that the broker does not hold back,
// connecting if need be. The error, if there is none, is [errAway] or says why.
func (l *link) current(ctx context.Context) (publishing, error) {
	p, err := l.publish.get(ctx)
	if err != nil {
		return p, fmt.Errorf("%w: %w", errAway, err)
	}
	if why := p.Blocked(); why != "" {
		return p, errors.New(why)
	}
	if l.stale.Load() {
		return p, l.declare(ctx, p.conn)
	}
	return p, nil
}

// looking returns a connection for everything but publishing and turns.
func (l *link) looking(ctx context.Context) (*broker.Conn, error) {
	c, err := l.desk.get(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errAway, err)
	}
	return c, nil
}

func (l *link) end() {
	l.publish.end()
	l.desk.end()
}

// notPublished is what became of a message that was not even sent; else it is the
// name of a [broker.Fate].
const notPublished = "not published"

// A published is what became of an event's message on one channel.
type published struct {
	channel notify.Channel
	fate    string // confirmed, returned, nacked, unknown, not published
	why     string
}

// send publishes a notification on channels, back to back, and says what became of
// each by the time that ctx ends.
func (l *link) send(ctx context.Context, n notify.Notification, channels []notify.Channel, crash string) []published {
	out := make([]published, len(channels))
	receipts := make([]*broker.Receipt, len(channels))
	p, err := l.current(ctx)
	for i, c := range channels {
		out[i] = published{channel: c, fate: notPublished}
		if err == nil {
			receipts[i], err = p.Start(ctx, broker.NewMessage(l.topology.Names, c, n, crash))
		}
		if err != nil {
			out[i].why = err.Error()
		}
	}
	for i, r := range receipts {
		if r == nil {
			continue
		}
		fate, err := r.Wait(ctx)
		out[i].fate = fate.String()
		if err != nil {
			out[i].why = err.Error()
		}
		if fate == broker.Returned {
			l.stale.Store(true)
		}
	}
	return out
}
