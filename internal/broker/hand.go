package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

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
