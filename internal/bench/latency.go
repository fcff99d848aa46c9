package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
)

// At half load messages are published for so long, or so many runs' messages.
const (
	latencyTime = 5 * time.Second
	latencyRuns = 5
)

// latency measures how long a message takes from before its publish to the
// provider, with a lease, when they come half as fast as the worker could.
func (b *bench) latency(ctx context.Context) error {
	leased := manner{settings: event.Settings{Idempotency: true, ClaimLease: true}}
	b.say("latency, the full load")
	full, err := b.consumeAs(ctx, leased)
	if err != nil {
		return err
	}
	half := full / 2
	n := min(int(half*latencyTime.Seconds()), latencyRuns*b.Messages)
	b.say(fmt.Sprintf("latency, %d messages", n))
	defer func() { _, _ = idem.Forget(context.WithoutCancel(ctx), b.redis, b.Namespace) }()

	times := make([]struct{ published, accepted atomic.Int64 }, n) // since began
	began := time.Now()
	passed := func() int64 { return int64(time.Since(began)) }
	working, stop := context.WithCancel(ctx)
	defer stop()
	run, closing, err := b.worker(working, leased, n)
	if err != nil {
		return err
	}
	defer closing()
	run.Sender = timed{run.Sender, func(id string) { times[indexOf(id)].accepted.CompareAndSwap(0, passed()) }}
	ended := make(chan error, 1)
	go func() { ended <- run.Run(working) }()

	b.fills++
	pace := func(i int) error {
		if err := until(ctx, began.Add(time.Duration(float64(i)/half*float64(time.Second)))); err != nil {
			return err
		}
		times[i].published.Store(passed())
		return nil
	}
	if err := b.publishEach(ctx, n, pace); err != nil {
		return err
	}
	if err := run.await(ended); err != nil {
		stop()
		<-ended
		return err
	}
	stop()
	if err := <-ended; err != nil {
		return err
	}
	took := make([]time.Duration, n)
	for i := range times {
		took[i] = time.Duration(times[i].accepted.Load() - times[i].published.Load())
	}
	b.emit(Figure{Name: "latency", PerS: half, P50MS: percentile(took, 50), P95MS: percentile(took, 95), P99MS: percentile(took, 99), Runs: n})
	return nil
}

// indexOf returns the number at the end of an id of [bench.notification].
func indexOf(id string) int {
	i, _ := strconv.Atoi(id[strings.LastIndexByte(id, '-')+1:])
	return i
}

// timed tells of what is sent, before it is.
type timed struct {
	notify.Sender
	sent func(id string)
}

func (t timed) Send(ctx context.Context, a notify.Attempt) notify.Result {
	t.sent(a.Notification.ID)
	return t.Sender.Send(ctx, a)
}

// until waits for a moment.
func until(ctx context.Context, at time.Time) error {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// message makes the i-th message of the run at hand.
func (b *bench) message(i int) broker.Message {
	return broker.NewMessage(b.topology().Names, notify.Push, b.notification(i), "")
}
