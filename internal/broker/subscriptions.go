package broker

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A Subscription is a queue that somebody reads for himself. Of an exchange it gets
// everything that is published there from when it is bound on, whoever else gets it.
type Subscription struct {
	Queue    string
	Exchange string // empty: it is bound to none
	// Single has the broker hand messages to one consumer at a time, however many
	// there are: the next one gets them when that one has gone.
	Single bool
	// Expires, if not 0, lets the broker delete the queue when nobody used or
	// declared it for that long.
	Expires time.Duration
}

func (s Subscription) queue() queue {
	// A handler that fails gives its message back, as often as it likes.
	args := amqp.Table{"x-queue-type": string(Quorum), "x-delivery-limit": int64(noDeliveryLimit)}
	if s.Single {
		args["x-single-active-consumer"] = true
	}
	if s.Expires > 0 {
		args["x-expires"] = s.Expires.Milliseconds()
	}
	return queue{s.Queue, args}
}

// DeclareExchange makes an exchange that copies what is published to it into every
// queue that is bound to it, where there is none. It goes with the last of these
// queues, so nobody has to delete it.
func (c *Conn) DeclareExchange(ctx context.Context, name string) error {
	_, err := onChannel(ctx, c, func(ch *amqp.Channel) (struct{}, error) {
		return struct{}{}, declareExchange(ch, name)
	})
	return err
}

func declareExchange(ch *amqp.Channel, name string) error {
	err := ch.ExchangeDeclare(name, amqp.ExchangeFanout,
		true,  // durable
		true,  // auto-delete, with the last queue
		false, // internal
		false, // no-wait
		nil)
	if err != nil {
		return fmt.Errorf("declare exchange %s: %w", name, err)
	}
	return nil
}

// Subscribe makes queues where they do not exist, and binds them. One that exists
// with other arguments is a [ConflictError], and stays as it is.
func (c *Conn) Subscribe(ctx context.Context, subscriptions ...Subscription) error {
	for _, s := range subscriptions {
		if err := c.declare(ctx, s.queue()); err != nil {
			return err
		}
		if s.Exchange == "" {
			continue
		}
		_, err := onChannel(ctx, c, func(ch *amqp.Channel) (struct{}, error) {
			if err := declareExchange(ch, s.Exchange); err != nil {
				return struct{}{}, err
			}
			if err := ch.QueueBind(s.Queue, "", s.Exchange, false, nil); err != nil {
				return struct{}{}, fmt.Errorf("bind %s to %s: %w", s.Queue, s.Exchange, err)
			}
			return struct{}{}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
