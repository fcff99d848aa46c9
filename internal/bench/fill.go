package bench

import (
	"context"
	"fmt"
	"strconv"

	"golang.org/x/sync/errgroup"

	"notifylab/internal/broker"
	"notifylab/internal/notify"
)

// text makes a message of about 200 bytes.
const text = "Your pass expires on Friday. Renew it in the app or at the desk in the hall, and have your old card at hand: " +
	"from Saturday on the gates will not open to it."

// notification is the i-th of the run at hand. No two runs have an id in common.
func (b *bench) notification(i int) notify.Notification {
	return notify.Notification{
		ID:   "b" + strconv.Itoa(b.fills) + "-" + strconv.Itoa(i),
		User: strconv.Itoa(i % 500), // not 999, whom the lab's provider refuses
		Text: text,
	}
}

// fill publishes a new run's n messages and returns when all wait in the queue.
func (b *bench) fill(ctx context.Context, n int) error {
	b.fills++
	if err := b.publishEach(ctx, n, func(int) error { return nil }); err != nil {
		return err
	}
	return b.awaitReady(ctx, n)
}

// publishEach publishes n messages, each after before has returned, and returns when
// all are confirmed.
func (b *bench) publishEach(ctx context.Context, n int, before func(i int) error) error {
	start := func(i int) (*broker.Receipt, error) {
		m := b.message(i)
		if err := before(i); err != nil {
			return nil, err
		}
		return b.publisher.Start(ctx, m)
	}
	return windowed(ctx, n, start, func(ctx context.Context, r *broker.Receipt) error {
		if fate, err := r.Wait(ctx); fate != broker.Confirmed {
			return fmt.Errorf("publish: %v: %w", fate, err)
		}
		return nil
	})
}

// windowed publishes n messages, of which [bareWindow] may be on their way, and awaits
// their confirms, the oldest first.
func windowed[T any](ctx context.Context, n int, publish func(i int) (T, error), confirmed func(context.Context, T) error) error {
	window := make(chan T, bareWindow)
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		for sent := range window {
			if err := confirmed(ctx, sent); err != nil {
				return err
			}
		}
		return nil
	})
	both.Go(func() error {
		defer close(window)
		for i := range n {
			sent, err := publish(i)
			if err != nil {
				return err
			}
			select {
			case window <- sent:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	return both.Wait()
}
