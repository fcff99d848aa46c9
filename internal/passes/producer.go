package passes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
)

// A Producer puts events into a log, or to an exchange. It knows of no group, of no
// queue and of no reader. Its methods are for one goroutine: the order within a
// partition or a queue is that of the calls.
type Producer struct {
	to        func(Expired) broker.Message // where to: without its contents
	publisher *broker.Publisher
	name      string
	emit      func(event.Event)
}

// inFlight is how many events may be unanswered at once.
const inFlight = 64

// NewProducer makes a producer of a log that ends with the connection, or when ctx
// ends. Its name is the source of its events: emit gets queued for each that is
// confirmed.
func NewProducer(ctx context.Context, conn *broker.Conn, log Log, name string, emit func(event.Event)) (*Producer, error) {
	return newProducer(ctx, conn, name, emit, func(e Expired) broker.Message {
		return broker.Message{Queue: log.Queue(log.Partition(e.Pass))}
	})
}

// NewAnnouncer makes a producer that publishes to an exchange, from which whichever
// queues are bound to it get each event; without one into a queue. An event that no
// queue gets is an error of [Flight.Wait].
func NewAnnouncer(ctx context.Context, conn *broker.Conn, exchange, queue, name string, emit func(event.Event)) (*Producer, error) {
	return newProducer(ctx, conn, name, emit, func(Expired) broker.Message {
		return broker.Message{Exchange: exchange, Queue: queue}
	})
}

func newProducer(ctx context.Context, conn *broker.Conn, name string, emit func(event.Event), to func(Expired) broker.Message) (*Producer, error) {
	publisher, err := conn.Publisher(ctx, inFlight)
	if err != nil {
		return nil, fmt.Errorf("make a producer: %w", err)
	}
	return &Producer{to: to, publisher: publisher, name: name, emit: emit}, nil
}

// A Post is one event to publish.
type Post struct {
	Expired
	Crash string // a crash point that its record arms; may be empty
}

// A Flight is an event on its way.
type Flight struct {
	post    Post
	to      string // a queue, or an exchange
	p       *Producer
	receipt *broker.Receipt
}

// Start puts an event in flight, when fewer than 64 are. Wait must be called on the
// flight, once. After an error nothing was published.
func (p *Producer) Start(ctx context.Context, post Post) (*Flight, error) {
	if err := post.Validate(); err != nil {
		return nil, fmt.Errorf("publish %s: %w", post.ID, err)
	}
	m := p.to(post.Expired)
	m.ID, m.Body, m.Crash = post.ID, Encode(post.Expired), post.Crash
	f := &Flight{post: post, to: cmp.Or(m.Exchange, m.Queue), p: p}
	var err error
	f.receipt, err = p.publisher.Start(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("publish %s: %w", post.ID, err)
	}
	return f, nil
}

// Wait returns nil when the broker has the event, wherever it was to go. After an error
// it may have it or not, unless the error says that it was returned.
func (f *Flight) Wait(ctx context.Context) error {
	fate, err := f.receipt.Wait(ctx)
	if fate != broker.Confirmed {
		return fmt.Errorf("publish %s: %v: %w", f.post.ID, fate, err)
	}
	f.p.emit(event.Event{
		Time: time.Now(), Kind: event.Queued, Source: f.p.name, PID: os.Getpid(),
		ID: f.post.ID, User: f.post.User, Pass: f.post.Pass, Text: f.post.Text, Queue: f.to,
	})
	return nil
}

// Publish publishes events back to back, and returns when each has its answer. The
// error names those that the broker may not have.
func (p *Producer) Publish(ctx context.Context, posts ...Post) error {
	var flights []*Flight
	var errs []error
	for _, post := range posts {
		if len(flights) == inFlight { // only who waits makes room
			errs = append(errs, flights[0].Wait(ctx))
			flights = flights[1:]
		}
		f, err := p.Start(ctx, post)
		if err != nil {
			errs = append(errs, err)
			break
		}
		flights = append(flights, f)
	}
	for _, f := range flights {
		errs = append(errs, f.Wait(ctx))
	}
	return errors.Join(errs...)
}
