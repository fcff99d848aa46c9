package broker

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Declare makes the topology's queues where they do not exist. A queue that
// exists with other arguments is a [ConflictError], and stays as it is.
func (c *Conn) Declare(ctx context.Context, t Topology) error {
	return c.declare(ctx, t.queues()...)
}

func (c *Conn) declare(ctx context.Context, queues ...queue) error {
	_, err := onChannel(ctx, c, func(ch *amqp.Channel) (struct{}, error) {
		for _, q := range queues {
			_, err := ch.QueueDeclare(q.name,
				true,  // durable
				false, // auto-delete
				false, // exclusive
				false, // no-wait
				q.args)
			if err != nil {
				return struct{}{}, conflict(q.name, err)
			}
		}
		return struct{}{}, nil
	})
	return err
}

// Ready returns how many messages of a queue wait to be handed over; unacked
// ones are not among them, and of a stream it is always 0. ok is false if there
// is no such queue.
func (c *Conn) Ready(ctx context.Context, queue string) (messages, consumers int, ok bool, err error) {
	q, err := onChannel(ctx, c, func(ch *amqp.Channel) (amqp.Queue, error) {
		return ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	})
	var e *amqp.Error
	switch {
	case err == nil:
		return q.Messages, q.Consumers, true, nil
	case errors.As(err, &e) && e.Code == amqp.NotFound:
		return 0, 0, false, nil
	}
	return 0, 0, false, fmt.Errorf("look at %s: %w", queue, err)
}

// Delete removes queues with all they hold; one that is not there is no error.
func (c *Conn) Delete(ctx context.Context, queues ...string) error {
	_, err := onChannel(ctx, c, func(ch *amqp.Channel) (struct{}, error) {
		for _, q := range queues {
			if _, err := ch.QueueDelete(q, false, false, false); err != nil {
				return struct{}{}, fmt.Errorf("delete %s: %w", q, err)
			}
		}
		return struct{}{}, nil
	})
	return err
}

// onChannel calls do with a channel of its own, since an error closes the
// channel on which it came. Like [within] it does not outlast ctx.
func onChannel[T any](ctx context.Context, c *Conn, do func(*amqp.Channel) (T, error)) (T, error) {
	return within(ctx, c, func() (value T, err error) {
		ch, err := c.amqp.Channel()
		if err != nil {
			return value, fmt.Errorf("open channel: %w", err)
		}
		defer ch.Close()
		return do(ch)
	})
}

// Closed says whether the connection has ended, as far as is known by now.
func (c *Conn) Closed() bool { return c.amqp.IsClosed() }
