package bench

import (
	"context"
	"fmt"
	"strconv"

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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	receipts := make(chan *broker.Receipt, bareWindow)
	confirmed := make(chan error, 1)
	go func() {
		for r := range receipts {
			if fate, err := r.Wait(ctx); fate != broker.Confirmed {
				confirmed <- fmt.Errorf("publish: %v: %w", fate, err)
				return
			}
		}
		confirmed <- nil
	}()
	for i := range n {
		m := b.message(i)
		if err := before(i); err != nil {
			return err
		}
		r, err := b.publisher.Start(ctx, m)
		if err != nil {
			return err
		}
		select {
		case receipts <- r:
		case err := <-confirmed:
			return err
		}
	}
	close(receipts)
	return <-confirmed
}
