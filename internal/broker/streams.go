package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A Stream is a queue that keeps what is read: a log. Its entries are numbered, and
// whoever reads says from which on. Only its bounds take anything out of it, the
// oldest first and a whole segment at a time, which is 500 MB unless said otherwise.
//
// The broker takes no x-expires for a stream (measured on 3.10 and 4.0): a stream is
// there until somebody deletes it.
type Stream struct {
	Name     string
	MaxBytes int64         // 0: no bound by size
	MaxAge   time.Duration // 0: no bound by age; in whole seconds
	// SegmentBytes, if not 0, is how large a segment may be. With each new one the
	// numbering leaves out a number, for a note that the broker makes (measured): so
	// small segments are not for whoever counts offsets.
	SegmentBytes int64
}

// headerOffset is in the arguments of a consumer, from where on, and in the headers
// of every delivery, which entry it is.
const headerOffset = "x-stream-offset"

func (s Stream) queue() (queue, error) {
	args := amqp.Table{"x-queue-type": "stream"}
	if s.MaxBytes > 0 {
		args["x-max-length-bytes"] = s.MaxBytes
	}
	if s.MaxAge > 0 {
		args["x-max-age"] = fmt.Sprintf("%ds", int64(s.MaxAge.Seconds()))
	}
	if len(args) == 1 {
		return queue{}, fmt.Errorf("declare %s: a stream without a bound would grow for ever", s.Name)
	}
	if s.SegmentBytes > 0 {
		args["x-stream-max-segment-size-bytes"] = s.SegmentBytes
	}
	return queue{s.Name, args}, nil
}

// DeclareStreams makes streams where they do not exist. One that exists with other
// arguments is a [ConflictError], one without a bound an error; it stays as it is.
func (c *Conn) DeclareStreams(ctx context.Context, streams ...Stream) error {
	var queues []queue
	for _, s := range streams {
		q, err := s.queue()
		if err != nil {
			return err
		}
		queues = append(queues, q)
	}
	return c.declare(ctx, queues...)
}

// A Start is where in a stream reading begins. The zero Start is [AtNext].
type Start struct{ argument any }

// AtFirst is the oldest entry that is there.
func AtFirst() Start { return Start{"first"} }

// AtLast is somewhere before the end: where the entries begin that the broker wrote
// in one go with the last one. To learn the last offset there is [Conn.End].
func AtLast() Start { return Start{"last"} }

// AtNext is the first entry that is not there yet.
func AtNext() Start { return Start{"next"} }

// At is the entry with that offset, from 0; the oldest if it is gone, and if it does
// not exist yet nothing is read before it does.
func At(offset int64) Start { return Start{offset} }

// A Reading is one stream to read.
type Reading struct {
	Stream string
	From   Start
}

// An Entry is one message of a stream. The broker never says that it handed one over
// before: it does not know, since nothing is taken out.
type Entry struct {
	Stream  string
	Offset  int64
	ID      string // the message id
	Body    []byte
	Crash   string         // arms a crash point; empty: none
	Headers map[string]any // as published, and the broker's offset

	tag uint64
}

func entry(stream string, d amqp.Delivery) Entry {
	e := Entry{Stream: stream, ID: d.MessageId, Body: d.Body, Headers: d.Headers, tag: d.DeliveryTag}
	e.Offset, _ = d.Headers[headerOffset].(int64)
	e.Crash, _ = d.Headers[headerCrash].(string)
	return e
}

// A Reader hands over the entries of some streams, each stream's in their order. It
// ends, once and for good, when anything goes wrong with one of them.
type Reader struct {
	conn    *Conn
	ch      *amqp.Channel
	entries chan Entry
	over    chan struct{}
	endOnce sync.Once
	err     error          // why it is over; written before over is closed
	running sync.WaitGroup // the reader's goroutines
}

// Read starts to read. Of each stream prefetch entries, at least 1, are handed over
// without an ack; RabbitMQ 3.10 hands over all that it wrote in one go with the last
// of these (measured). A stream that does not exist is an error. ctx bounds the start only.
func (c *Conn) Read(ctx context.Context, prefetch int, readings ...Reading) (*Reader, error) {
	r := &Reader{conn: c, entries: make(chan Entry), over: make(chan struct{})}
	start, err := within(ctx, c, func() (func(), error) { return r.open(prefetch, readings) })
	if err != nil {
		return nil, err
	}
	start()
	return r, nil
}

// open returns what sets the reader going. Should nobody be there to call that by
// then, what was opened ends with the connection.
func (r *Reader) open(prefetch int, readings []Reading) (func(), error) {
	var err error
	if r.ch, err = r.conn.amqp.Channel(); err != nil {
		return nil, fmt.Errorf("open channel: %w", err)
	}
	closed := r.ch.NotifyClose(make(chan *amqp.Error, 1))
	cancelled := r.ch.NotifyCancel(make(chan string, len(readings)))
	in := make([]<-chan amqp.Delivery, len(readings))
	for i, reading := range readings {
		if in[i], err = consumeStream(r.ch, reading, prefetch); err != nil {
			r.ch.Close()
			return nil, err
		}
	}
	return func() {
		var pumps sync.WaitGroup
		for i, reading := range readings {
			pumps.Go(func() { r.pump(reading.Stream, in[i]) })
		}
		r.running.Go(func() {
			pumps.Wait()
			<-r.over
			close(r.entries)
		})
		r.running.Go(func() { r.watch(closed, cancelled) })
	}, nil
}

// consumeStream consumes with the stream's name as the consumer's.
func consumeStream(ch *amqp.Channel, r Reading, prefetch int) (<-chan amqp.Delivery, error) {
	if err := ch.Qos(prefetch, 0, false); err != nil { // of the next consumer, not of all
		return nil, fmt.Errorf("set prefetch: %w", err)
	}
	args := amqp.Table{}
	if r.From.argument != nil {
		args[headerOffset] = r.From.argument
	}
	in, err := ch.Consume(r.Stream, r.Stream,
		false, // auto-ack: for a stream the broker closes the connection
		false, // exclusive
		false, // no-local, not supported by RabbitMQ
		false, // no-wait
		args)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.Stream, err)
	}
	return in, nil
}

func (r *Reader) pump(stream string, in <-chan amqp.Delivery) {
	for d := range in { // closed with the channel
		select {
		case r.entries <- entry(stream, d):
		case <-r.over: // dropped: it is still in the log
		}
	}
}

func (r *Reader) watch(closed <-chan *amqp.Error, cancelled <-chan string) {
	select {
	case e := <-closed:
		r.end(ended(e))
	case stream, ok := <-cancelled:
		if ok {
			r.end(fmt.Errorf("consumer cancelled: %s was deleted or moved", stream))
		} else { // closed with the channel; closed says why
			r.end(ended(<-closed))
		}
	case <-r.over:
	}
	limit := time.AfterFunc(closeLimit, r.conn.cut) // it waits for the broker
	defer limit.Stop()
	r.ch.Close()
}

func (r *Reader) end(err error) {
	r.endOnce.Do(func() {
		r.err = err
		close(r.over)
	})
}

// Entries gives what is read, and is closed after the reader is over.
func (r *Reader) Entries() <-chan Entry { return r.entries }

// Ack lets the broker hand over more of e's stream. It settles nothing: whoever
// reads again from there gets e again.
func (r *Reader) Ack(e Entry) error {
	if err := r.ch.Ack(e.tag, false); err != nil {
		err = fmt.Errorf("ack %d of %s: %w", e.Offset, e.Stream, r.conn.lost(err))
		r.end(err)
		return err
	}
	return nil
}

// Over is closed when the reader has ended.
func (r *Reader) Over() <-chan struct{} { return r.over }

// Err says why the reader is over; nil before.
func (r *Reader) Err() error {
	select {
	case <-r.over:
		return r.err
	default:
		return nil
	}
}

// Close ends the reading, within two seconds: a broker that does not answer by then
// loses the connection.
func (r *Reader) Close() {
	r.end(errors.New("closed"))
	r.running.Wait()
}
