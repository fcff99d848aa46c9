package broker

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/notify"
)

// A Consumer takes the messages of one queue, one at a time, and settles each by
// itself: as plainly as the protocol has it. (A [Session] does what a worker under
// load needs.) Its methods are for one goroutine.
type Consumer struct {
	conn     *Conn
	ch       *amqp.Channel
	queue    string
	prefetch int
	in       <-chan amqp.Delivery
	closed   <-chan *amqp.Error
}

// Consume starts to take the messages of a queue. At most prefetch of them are here
// and unsettled; with auto the broker takes each for settled when it has written it,
// so that as many are here as there are, whatever prefetch says. ctx bounds the start
// only.
func (c *Conn) Consume(ctx context.Context, queue string, prefetch int, auto bool) (*Consumer, error) {
	return within(ctx, c, func() (*Consumer, error) {
		ch, err := c.amqp.Channel()
		if err != nil {
			return nil, fmt.Errorf("open channel: %w", err)
		}
		k := &Consumer{conn: c, ch: ch, queue: queue, prefetch: prefetch, closed: ch.NotifyClose(make(chan *amqp.Error, 1))}
		if err := ch.Qos(prefetch, 0, false); err != nil {
			return nil, fmt.Errorf("set prefetch: %w", err)
		}
		k.in, err = ch.Consume(queue, "",
			auto,  // auto-ack
			false, // exclusive
			false, // no-local, not supported by RabbitMQ
			false, // no-wait
			nil)
		if err != nil {
			return nil, fmt.Errorf("consume %s: %w", queue, err)
		}
		return k, nil
	})
}

// Next waits for the next message. An error is the cause of ctx's end, or says that
// the consumer has ended: nothing that is here can be settled then.
func (k *Consumer) Next(ctx context.Context) (*notify.Delivery, error) {
	if ctx.Err() != nil { // select takes either
		return nil, context.Cause(ctx)
	}
	select {
	case d, ok := <-k.in:
		if ok {
			return received(d), nil
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case e := <-k.closed:
		return nil, k.conn.lost(fmt.Errorf("consume %s: %w", k.queue, ended(e)))
	default: // the channel lives
		return nil, fmt.Errorf("consume %s: cancelled, it was deleted or moved", k.queue)
	}
}

// Ack settles d: the broker forgets it, once it has the ack.
func (k *Consumer) Ack(d *notify.Delivery) error {
	if err := k.ch.Ack(d.Tag, false); err != nil {
		return k.conn.lost(fmt.Errorf("ack: %w", err))
	}
	return nil
}

// AckNow settles d and returns when the broker has the ack: a round trip was made
// behind it.
func (k *Consumer) AckNow(ctx context.Context, d *notify.Delivery) error {
	if err := k.Ack(d); err != nil {
		return err
	}
	_, err := within(ctx, k.conn, func() (struct{}, error) {
		return struct{}{}, k.ch.Qos(k.prefetch, 0, false)
	})
	return err
}

// Back gives d back: the broker hands it over again, perhaps to somebody else.
func (k *Consumer) Back(d *notify.Delivery) error {
	if err := k.ch.Nack(d.Tag, false, true); err != nil {
		return k.conn.lost(fmt.Errorf("give back: %w", err))
	}
	return nil
}

// Close ends the consumer, within two seconds: what is here and unsettled goes back.
func (k *Consumer) Close() {
	limit := time.AfterFunc(closeLimit, k.conn.cut) // it waits for the broker
	defer limit.Stop()
	k.ch.Close()
}
