package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/broker"
)

// The bare client: what amqp091-go does by itself, written as well as one can, and what
// ratios are against. No ceiling for publishing: the library writes each message by
// itself, our publisher writes what has gathered.

// bareWindow is how many publishes the bare client has in flight.
const bareWindow = 4000

// bareChannel opens a connection of its own, to the node on which the queue was made,
// and a channel on it. Closing cuts both.
func (b *bench) bareChannel() (ch *amqp.Channel, closing func(), err error) {
	conn, err := amqp.DialConfig(b.conn.URL(), amqp.Config{Heartbeat: 10 * time.Second, Locale: "en_US"})
	if err != nil {
		return nil, nil, &broker.UnreachableError{Addr: b.conn.Addr(), Err: err}
	}
	if ch, err = conn.Channel(); err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return ch, func() { _ = conn.Close() }, nil
}

// publishBare publishes with a sliding window of confirms, oldest awaited first.
func (b *bench) publishBare(ctx context.Context) (pace, error) {
	defer b.drop(ctx)
	ch, closing, err := b.bareChannel()
	if err != nil {
		return pace{}, err
	}
	defer closing()
	if err := ch.Confirm(false); err != nil {
		return pace{}, err
	}
	b.fills++
	began := time.Now()
	publish := func(i int) (*amqp.DeferredConfirmation, error) {
		m := b.message(i)
		return ch.PublishWithDeferredConfirmWithContext(ctx, "", m.Queue, true, false, amqp.Publishing{
			MessageId: m.ID, ContentType: "application/json", DeliveryMode: amqp.Persistent, Body: m.Body,
		})
	}
	err = windowed(ctx, b.Messages, publish, func(ctx context.Context, c *amqp.DeferredConfirmation) error {
		if ok, err := c.WaitContext(ctx); err != nil {
			return err
		} else if !ok {
			return errors.New("nacked")
		}
		return nil
	})
	if err != nil {
		return pace{}, err
	}
	return pace{perS: rate(b.Messages, began)}, nil
}

// consumeBare acks what has arrived by one ack: what the broker and the library can
// do if nobody does anything with a message.
func (b *bench) consumeBare(ctx context.Context) (pace, error) {
	return b.consumeBy(ctx, b.ackTogether)
}

// ackTogether acks what has arrived, whenever it is free.
func (b *bench) ackTogether(tags <-chan uint64, ack func(uint64) error) error {
	for n := 0; n < b.Messages; {
		tag, ok := <-tags
		for more := true; ok && more; {
			n++
			select {
			case next, open := <-tags:
				if ok = open; open {
					tag = next
				}
			default:
				more = false
			}
		}
		if !ok {
			return fmt.Errorf("the channel closed after %d deliveries", n)
		}
		if err := ack(tag); err != nil {
			return err
		}
	}
	return nil
}

// consumeBy fills the queue and returns how fast a bare client has acked the messages in
// its way, from connecting to its last ack.
func (b *bench) consumeBy(ctx context.Context, way func(tags <-chan uint64, ack func(uint64) error) error) (pace, error) {
	if err := b.fill(ctx, b.Messages); err != nil {
		return pace{}, err
	}
	meter, err := b.startMeter(ctx, b.Messages)
	if err != nil {
		return pace{}, err
	}
	ch, closing, err := b.bareChannel()
	if err != nil {
		return pace{}, err
	}
	defer closing()
	if err := ch.Qos(b.Prefetch, 0, false); err != nil {
		return pace{}, err
	}
	in, err := ch.ConsumeWithContext(ctx, b.work(), bareTag, false, false, false, false, nil)
	if err != nil {
		return pace{}, err
	}
	// The library hands over one by one; several can only be seen in a buffer of
	// our own.
	tags := make(chan uint64, b.Prefetch)
	go func() {
		defer close(tags)
		for d := range in {
			tags <- d.DeliveryTag
		}
	}()
	if err := way(tags, func(tag uint64) error { return ch.Ack(tag, true) }); err != nil {
		return pace{}, err
	}
	done, err := meter.stop(ctx)
	if err != nil {
		return pace{}, err
	}
	// A quorum queue drops acks that it has not come to when the channel closes; it
	// answers a cancel after it has (measured on 3.10).
	if err := ch.Cancel(bareTag, false); err != nil {
		return pace{}, err
	}
	return done, b.awaitReady(ctx, 0)
}

const bareTag = "bare"

func rate(n int, since time.Time) float64 { return float64(n) / time.Since(since).Seconds() }

func (b *bench) work() string { return b.topology().Work(b.topology().Channels[0]) }

// awaitReady returns when so many messages wait in the work queue.
func (b *bench) awaitReady(ctx context.Context, want int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		n, _, ok, err := b.conn.Ready(ctx, b.work())
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%s is gone", b.work())
		}
		if n == want {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("%s holds %d messages, want %d: %w", b.work(), n, want, context.Cause(ctx))
		}
	}
}

// drop empties the work queue by making it anew.
func (b *bench) drop(ctx context.Context) {
	if b.conn.Delete(ctx, b.work()) == nil {
		_ = b.conn.Declare(ctx, b.topology())
	}
}
