package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/notify"
)

// A Publisher publishes, with many messages in flight. Its methods may be
// called from several goroutines.
type Publisher struct {
	ch     *amqp.Channel
	window chan struct{} // one for each message that the broker has not answered
	queue  chan *Receipt // to the writer; has room for all of the window
	late   chan *Receipt // nobody waits for them any more; has room, too
	over   chan struct{} // closed when the writer has ended

	serials  atomic.Uint64
	mu       sync.Mutex
	err      error
	returns  <-chan amqp.Return
	returned map[string]amqp.Return // by serial
	blocked  error                  // [notify.ErrBlocked] and why, or nil
	blocking chan struct{}          // closed while there is a reason
	free     chan struct{}          // closed while there is none
}

// Publisher makes a publisher with at most window messages in flight, at least
// 1. It ends with the connection, or when ctx ends.
func (c *Conn) Publisher(ctx context.Context, window int) (*Publisher, error) {
	ch, err := within(ctx, c, func() (*amqp.Channel, error) {
		ch, err := c.amqp.Channel()
		if err != nil {
			return nil, fmt.Errorf("open channel: %w", err)
		}
		if err := ch.Confirm(false); err != nil {
			return nil, fmt.Errorf("select confirms: %w", err)
		}
		return ch, nil
	})
	if err != nil {
		return nil, err
	}
	p := &Publisher{
		ch:     ch,
		window: make(chan struct{}, window),
		queue:  make(chan *Receipt, window),
		late:   make(chan *Receipt, window),
		over:   make(chan struct{}),
		// A return that finds no room is dropped after 5 s by the library,
		// so there is room for all that can be in flight.
		returns:  ch.NotifyReturn(make(chan amqp.Return, window)),
		returned: map[string]amqp.Return{},
		blocking: make(chan struct{}),
		free:     make(chan struct{}),
	}
	close(p.free)
	ending := ch.NotifyClose(make(chan *amqp.Error, 1))
	blocked := c.amqp.NotifyBlocked(make(chan amqp.Blocking, 16))
	c.running.Go(func() { p.write(ctx, ending) })
	c.running.Go(func() { p.watch(blocked) })
	c.running.Go(p.reap)
	return p, nil
}

// Over is closed when the publisher has ended; what was in flight then has an
// unknown fate.
func (p *Publisher) Over() <-chan struct{} { return p.over }

// Err says why the publisher ended.
func (p *Publisher) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Blocked returns the broker's reason for holding publishers back, or "". The
// broker tells only who has published since.
func (p *Publisher) Blocked() string {
	if err := p.isBlocked(); err != nil {
		return err.Error()
	}
	return ""
}

func (p *Publisher) isBlocked() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.blocked
}

// held adds the broker's reason for holding publishers back, if there is one.
func (p *Publisher) held(err error) error {
	if why := p.Blocked(); why != "" {
		return fmt.Errorf("%s: %w", why, err)
	}
	return err
}

// Start puts m in flight, when there is room in the window. Wait must be called
// on the receipt, once. An error means that nothing was published.
func (p *Publisher) Start(ctx context.Context, m Message) (*Receipt, error) {
	serial, err := p.enter(ctx)
	if err != nil {
		return nil, err
	}
	out := m.publishing()
	out.CorrelationId = serial // a table of headers for each would be a tenth of what it costs (measured)
	return p.takeOff(serial, m.Exchange, m.Queue, out), nil
}

// start puts a copy in flight. Its properties are those of whoever published it
// first, so its serial goes into a header.
func (p *Publisher) start(ctx context.Context, to string, m amqp.Publishing) (*Receipt, error) {
	serial, err := p.enter(ctx)
	if err != nil {
		return nil, err
	}
	m.Headers[headerSerial] = serial
	return p.takeOff(serial, "", to, m), nil
}

// enter waits for room in the window, and returns the serial of who has it.
func (p *Publisher) enter(ctx context.Context) (string, error) {
	if err := p.Err(); err != nil {
		return "", err
	}
	select {
	case p.window <- struct{}{}:
	case <-p.over:
		return "", p.Err()
	case <-ctx.Done():
		return "", p.held(fmt.Errorf("%d messages in flight: %w", cap(p.window), context.Cause(ctx)))
	}
	return strconv.FormatUint(p.serials.Add(1), 10), nil
}

func (p *Publisher) takeOff(serial, exchange, to string, m amqp.Publishing) *Receipt {
	m.DeliveryMode = amqp.Persistent
	r := &Receipt{p: p, serial: serial, exchange: exchange, to: to, message: m, written: make(chan struct{})}
	p.queue <- r
	return r
}

// write is the one goroutine that publishes: a write can block for as long as
// the broker likes (an alarm), and nobody else may wait for that.
func (p *Publisher) write(ctx context.Context, ending <-chan *amqp.Error) {
	defer close(p.over)
	for {
		select {
		case r := <-p.queue:
			r.confirm, r.err = p.ch.PublishWithDeferredConfirm(r.exchange, r.to,
				true,  // mandatory: an unroutable message comes back
				false, // immediate: not supported by RabbitMQ
				r.message)
			close(r.written)
		case e := <-ending:
			p.end(ended(e))
			return
		case <-ctx.Done():
			p.end(context.Cause(ctx))
			return
		}
	}
}

func (p *Publisher) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func (p *Publisher) watch(blocked <-chan amqp.Blocking) {
	for b := range blocked { // closed with the connection
		p.hold(b)
	}
}

func (p *Publisher) hold(b amqp.Blocking) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.blocked != nil
	p.blocked = nil
	if b.Active {
		p.blocked = fmt.Errorf("%w: %s", notify.ErrBlocked, b.Reason)
	}
	switch {
	case b.Active && !was:
		close(p.blocking)
		p.free = make(chan struct{})
	case !b.Active && was:
		close(p.free)
		p.blocking = make(chan struct{})
	}
}

// changes returns two channels: one is closed while the broker holds publishers
// back, the other while it doesn't.
func (p *Publisher) changes() (blocking, free <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.blocking, p.free
}

// reap frees the places of messages that nobody waits for, when they are
// answered: until then a return may come for each.
func (p *Publisher) reap() {
	for {
		select {
		case r := <-p.late:
			if r.answered(context.Background()) {
				p.tookReturn(r.serial)
				<-p.window
			}
		case <-p.over:
			return
		}
	}
}

// await waits for want. It returns false if ctx or the publisher ends first.
func (p *Publisher) await(ctx context.Context, want <-chan struct{}) bool {
	if closed(want) {
		return true
	}
	select {
	case <-want:
	case <-p.over:
	case <-ctx.Done():
	}
	return closed(want)
}

// tookReturn says whether the message with that serial came back. The library
// puts a return into our channel before it resolves the confirm, so all that
// have arrived are taken in first. Serials are ours: ids repeat.
func (p *Publisher) tookReturn(serial string) (amqp.Return, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		select {
		case ret, ok := <-p.returns:
			if ok {
				p.returned[serialOf(ret)] = ret
				continue
			}
			p.returns = nil // closed with the channel
		default:
		}
		break
	}
	ret, ok := p.returned[serial]
	delete(p.returned, serial)
	return ret, ok
}

// serialOf reads the serial where start or Start put it.
func serialOf(ret amqp.Return) string {
	if s, ok := ret.Headers[headerSerial].(string); ok {
		return s
	}
	return ret.CorrelationId
}

// ended turns the library's word for the end of a connection or channel into an
// error; nil means that we closed it.
func ended(e *amqp.Error) error {
	switch {
	case e == nil:
		return errors.New("connection closed")
	case e.Server:
		return errors.New(e.Reason)
	}
	return errors.New("connection lost: " + e.Reason)
}
