package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/notify"
)

// A DeadLetter is a parked message with what is known of how it came there.
type DeadLetter struct {
	ID       string // its message id; ours put the notification's there
	Body     []byte
	Reason   string    // refused, unknown, malformed, conflict, crashed; or the broker's own word
	ByBroker bool      // the broker parked it, by itself
	Attempts int       // sends tried
	First    string    // what the first attempt said
	Last     string    // what the last attempt said
	At       time.Time // when it was parked; zero: not known
	Worker   string    // by whom
	History  []string  // a line for each copy, oldest first
}

// Notification returns what the message is about, if it can be read.
func (d DeadLetter) Notification() (notify.Notification, bool) {
	n, err := notify.Decode(d.Body)
	return n, err == nil
}

// ErrTurn says that somebody else is at these dead letters.
var ErrTurn = errors.New("somebody else is at it")

// A ReplayError says that the broker did not confirm a replay. The message stays
// among the dead letters; if its fate is [Unknown] it may be in the work queue, too.
type ReplayError struct {
	ID, Queue string // the work queue
	Fate      Fate
	Err       error
}

func (e *ReplayError) Error() string {
	return fmt.Sprintf("replay %s to %s: %v: %v", e.ID, e.Queue, e.Fate, e.Err)
}

func (e *ReplayError) Unwrap() error { return e.Err }

// DeadLetters is the dead letters of one channel, for whoever has the turn: those
// who look, replay or purge take turns, since each holds all of them in hand for a
// while.
type DeadLetters struct {
	// Dial makes a connection to publish replays on. The turn's own would not do:
	// the broker reads nothing more of one that publishes under an alarm, neither
	// its acks nor its end, so the turn would be taken for as long as that lasts.
	Dial func(context.Context) (*Conn, error)

	conn    *Conn
	names   Names
	channel notify.Channel
	turn    *amqp.Channel
}

const (
	patience  = 5 * time.Second        // for a turn
	answering = 4 * time.Second        // for each thing asked of the broker
	pollEvery = 100 * time.Millisecond // the broker tells nobody when a turn is free
)

// DeadLetters takes the turn at a channel's dead letters: an exclusive queue, which
// goes with this connection however it ends. It waits up to five seconds, then the
// error is [ErrTurn]. To the broker all that one connection does is one's own: each
// turn needs a connection of its own. After another error this one may have the
// turn all the same, and is to be closed.
func (c *Conn) DeadLetters(ctx context.Context, names Names, channel notify.Channel) (*DeadLetters, error) {
	name := names.DeadLetters(channel)
	for late := time.Now().Add(patience); ; {
		ch, err := asked(ctx, c, func() (*amqp.Channel, error) { return takeTurn(c, name+".turn") })
		var e *amqp.Error
		switch {
		case err == nil:
			return &DeadLetters{conn: c, names: names, channel: channel, turn: ch}, nil
		case !errors.As(err, &e) || e.Code != amqp.ResourceLocked:
			return nil, fmt.Errorf("take a turn at %s: %w", name, err)
		case time.Now().After(late):
			return nil, fmt.Errorf("take a turn at %s: %w", name, ErrTurn)
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return nil, fmt.Errorf("take a turn at %s: %w", name, context.Cause(ctx))
		}
	}
}

// asked is [within], and for no longer than an answer may take.
func asked[T any](ctx context.Context, c *Conn, do func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answering, fmt.Errorf("no answer in %v", answering))
	defer cancel()
	return within(ctx, c, do)
}

func takeTurn(c *Conn, queue string) (*amqp.Channel, error) {
	ch, err := c.amqp.Channel()
	if err != nil {
		return nil, fmt.Errorf("open channel: %w", err)
	}
	_, err = ch.QueueDeclare(queue,
		false, // durable
		true,  // auto-delete
		true,  // exclusive: nobody else can even see it, and it goes with us
		false, // no-wait
		nil)
	if err != nil {
		ch.Close()
		return nil, err
	}
	return ch, nil
}

// Close gives the turn to the next.
func (d *DeadLetters) Close() error {
	_, err := asked(context.Background(), d.conn, func() (struct{}, error) {
		_, err := d.turn.QueueDelete(d.names.DeadLetters(d.channel)+".turn", false, false, false)
		return struct{}{}, errors.Join(err, d.turn.Close())
	})
	return err
}

// A Choice is what is to become of a dead letter.
type Choice int

const (
	Leave  Choice = iota // where it is
	Replay               // back to the work queue, with fresh attempts
	Drop                 // for good
)

// Each calls choose for every message that was there at the start, oldest first,
// and does with it what it says; choose's error ends it, after what was chosen
// before is done. done, if not nil, hears of each that is taken out. What is left
// stays in its order, untouched: to look is to leave all.
//
// A replayed message is published, confirmed and not returned before it leaves, so
// a crash leaves it in both places and never in none; some dozens are on their way
// at once. One that is not confirmed ends it with a [ReplayError]. What was begun is
// finished although ctx has ended.
func (d *DeadLetters) Each(ctx context.Context, choose func(DeadLetter) (Choice, error), done func(DeadLetter)) error {
	queue := d.names.DeadLetters(d.channel)
	all, err := d.settled(ctx, queue)
	if err != nil || all == 0 {
		return err
	}
	h, err := d.takeAll(ctx, queue, all)
	if err != nil {
		return err
	}
	h.done = done
	err = h.each(ctx, all, choose)
	for len(h.flights) > 0 {
		if late := h.land(); err == nil {
			err = late
		}
	}
	if h.replays != nil {
		if err != nil {
			h.replays.cut() // a broker that blocks it would not hear the farewell
		}
		h.replays.Close()
	}
	return errors.Join(err, h.giveBack(context.WithoutCancel(ctx)))
}

func (h *hand) each(ctx context.Context, all int, choose func(DeadLetter) (Choice, error)) error {
	for i := range all {
		m, err := h.next(ctx)
		if err != nil {
			return fmt.Errorf("look into %s: after %d of %d: %w", h.queue, i, all, err)
		}
		choice, err := choose(deadLetter(m))
		switch {
		case err != nil:
		case choice == Replay:
			err = h.replay(ctx, m)
		case choice == Drop:
			err = h.takeOut(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settled returns how many dead letters there are, once nobody has some in hand: a
// predecessor's come back a moment after its turn ends, above all if it was killed,
// and until then they are neither counted nor in their order. Somebody who takes
// them without a turn is waited for no longer than for an answer.
func (d *DeadLetters) settled(ctx context.Context, queue string) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answering, fmt.Errorf("no answer in %v", answering))
	defer cancel()
	for began := time.Now(); ; {
		ready, holders, _, err := d.conn.Ready(ctx, queue)
		if err != nil || holders == 0 || time.Since(began) > answering/2 {
			return ready, err
		}
		select {
		case <-time.After(pollEvery / 10):
		case <-ctx.Done():
		}
	}
}

// A hand is what Each holds: all that there is, at once. One message taken after
// another would not do: each basic.get is a consumer of its own to a quorum queue,
// which gives back what they hold in the order of a hash once they are more than
// 32; and whoever is killed after half of them would leave the second half before
// the first (both measured on 3.10). A consumer's are handed over in one step and
// come back in their order.
type hand struct {
	*DeadLetters
	ch        *amqp.Channel
	queue     string
	consumers []<-chan amqp.Delivery
	left      int        // of the first consumer's
	replays   *Conn      // made by the first replay, as is
	publisher *Publisher // on it
	flights   []flight   // oldest first
	acks      int        // since the last arrived
	done      func(DeadLetter)
}

// A flight is a replay on its way.
type flight struct {
	amqp.Delivery
	receipt  *Receipt
	deadline time.Time // for its confirm
}

const (
	mostInHand   = 65535 // the largest prefetch that AMQP can say
	mostInFlight = 64
	mostAcks     = 16
)

func (d *DeadLetters) takeAll(ctx context.Context, queue string, all int) (*hand, error) {
	return asked(ctx, d.conn, func() (*hand, error) {
		ch, err := d.conn.amqp.Channel()
		if err != nil {
			return nil, fmt.Errorf("open channel: %w", err)
		}
		h := &hand{DeadLetters: d, ch: ch, queue: queue, left: mostInHand}
		err = ch.Qos(mostInHand, 0, false)
		for n := 0; err == nil && n < all; n += mostInHand {
			var m <-chan amqp.Delivery
			m, err = ch.Consume(queue, fmt.Sprintf("look-%03d", len(h.consumers)), // their order is that of their names
				false, // auto-ack
				false, // exclusive
				false, // no-local
				false, // no-wait
				nil)
			h.consumers = append(h.consumers, m)
		}
		if err != nil {
			ch.Close()
			return nil, fmt.Errorf("look into %s: %w", queue, err)
		}
		return h, nil
	})
}

// next returns the next message in hand.
func (h *hand) next(ctx context.Context) (m amqp.Delivery, err error) {
	if h.left == 0 {
		h.consumers, h.left = h.consumers[1:], mostInHand
	}
	late := time.NewTimer(answering)
	defer late.Stop()
	select {
	case m, ok := <-h.consumers[0]:
		if !ok {
			return m, h.conn.lost(errors.New("the broker ended it"))
		}
		h.left--
		return m, nil
	case <-late.C:
		return m, &UnreachableError{Addr: h.conn.addr, Err: fmt.Errorf("no more came in %v", answering)}
	case <-ctx.Done():
		return m, context.Cause(ctx)
	}
}

// arrived returns when the queue has taken the acks. Of a quorum queue the channel
// keeps back acks while 32 are not taken, and forgets them when it is closed: what
// was replayed would be there again (seen on 3.10). The queue answers a get by
// itself, after what came before; it finds nothing, since all goes to our consumers.
func (h *hand) arrived(ctx context.Context) error {
	h.acks = 0
	_, err := asked(ctx, h.conn, func() (struct{}, error) {
		_, _, err := h.ch.Get(h.queue, false)
		return struct{}{}, err
	})
	return err
}

// giveBack returns when what was not acked is back in the queue.
func (h *hand) giveBack(ctx context.Context) error {
	var err error
	if h.acks > 0 {
		err = h.arrived(ctx)
	}
	if err == nil {
		_, err = asked(ctx, h.conn, func() (struct{}, error) { return struct{}{}, h.ch.Close() })
	}
	if err == nil {
		_, err = h.settled(ctx, h.queue)
	}
	if err != nil && !errors.Is(err, amqp.ErrClosed) {
		return fmt.Errorf("give back %s: %w", h.queue, err)
	}
	return nil
}

// replay publishes a message to the work queue: its body and properties, its
// history, nothing of the broker's, and neither its attempts nor its crash point.
// What was begun is finished although ctx has ended.
func (h *hand) replay(ctx context.Context, m amqp.Delivery) error {
	deadline := time.Now().Add(answering)
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	if h.publisher == nil {
		if err := h.connect(ctx); err != nil {
			return fmt.Errorf("replay %s: %w", m.MessageId, err)
		}
	}
	r, err := h.publisher.start(ctx, h.names.Work(h.channel), fresh(m))
	if err != nil {
		return fmt.Errorf("replay %s: %w", m.MessageId, h.replays.lost(err))
	}
	h.flights = append(h.flights, flight{m, r, deadline})
	if len(h.flights) < mostInFlight {
		return nil
	}
	return h.land()
}

func (h *hand) connect(ctx context.Context) (err error) {
	if h.replays, err = h.Dial(ctx); err != nil {
		return err
	}
	h.publisher, err = asked(ctx, h.replays, func() (*Publisher, error) {
		return h.replays.Publisher(context.WithoutCancel(ctx), mostInFlight)
	})
	return err
}

// land waits for the confirm of the oldest replay, and takes out what was replayed.
func (h *hand) land() error {
	f := h.flights[0]
	h.flights = h.flights[1:]
	ctx, cancel := context.WithDeadline(context.Background(), f.deadline)
	defer cancel()
	if fate, err := f.receipt.Wait(ctx); fate != Confirmed {
		return &ReplayError{f.MessageId, h.names.Work(h.channel), fate, h.replays.lost(err)}
	}
	return h.takeOut(f.Delivery)
}

func (h *hand) takeOut(m amqp.Delivery) error {
	err := h.ch.Ack(m.DeliveryTag, false)
	if h.acks++; err == nil && h.acks == mostAcks {
		err = h.arrived(context.Background())
	}
	if err != nil {
		return fmt.Errorf("take %s out of %s: %w", m.MessageId, h.queue, h.conn.lost(err))
	}
	if h.done != nil {
		h.done(deadLetter(m))
	}
	return nil
}

// fresh returns the copy that a replay publishes.
func fresh(m amqp.Delivery) amqp.Publishing {
	p := clean(m)
	for _, header := range []string{headerAttempts, headerCrash, headerFirst, headerLast, headerReason, headerTime, headerWorker} {
		delete(p.Headers, header)
	}
	old, _ := p.Headers[headerHistory].([]any)
	history := append([]any(nil), old...)
	if reason, at := death(m.Headers); reason != "" { // else its word would be gone
		history = append(history, at.UTC().Format(time.RFC3339Nano)+" RabbitMQ "+reason)
	}
	history = append(history, time.Now().UTC().Format(time.RFC3339Nano)+" replayed")
	p.Headers[headerHistory] = history[max(0, len(history)-maxHistory):]
	return p
}

func deadLetter(m amqp.Delivery) DeadLetter {
	text := func(h string) string { s, _ := m.Headers[h].(string); return s }
	d := DeadLetter{ID: m.MessageId, Body: m.Body, Reason: text(headerReason), First: text(headerFirst), Last: text(headerLast), Worker: text(headerWorker)}
	d.Attempts, _ = integer(m.Headers[headerAttempts])
	d.At, _ = time.Parse(time.RFC3339Nano, text(headerTime))
	lines, _ := m.Headers[headerHistory].([]any)
	for _, l := range lines {
		if s, ok := l.(string); ok {
			d.History = append(d.History, s)
		}
	}
	// A copy of ours carries nothing of the broker's, so its word is the last.
	if reason, at := death(m.Headers); reason != "" {
		d.Reason, d.ByBroker, d.At, d.Worker = reason, true, at, ""
	}
	return d
}

// death is why and when the broker last moved a message by itself: the newest entry
// of x-death. x-first-death-reason would be that of an earlier way through a retry
// queue: expired.
func death(h amqp.Table) (reason string, at time.Time) {
	deaths, _ := h["x-death"].([]any)
	if len(deaths) > 0 {
		newest, _ := deaths[0].(amqp.Table)
		reason, _ = newest["reason"].(string)
		at, _ = newest["time"].(time.Time)
	}
	if reason == "" {
		reason, _ = h["x-first-death-reason"].(string)
	}
	return reason, at
}
