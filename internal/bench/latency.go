package bench

import (
	"cmp"
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
// provider, with a lease, when they come half as fast as the worker could: in each
// round what it can do just then, and how long they take at half of that.
func (b *bench) latency(ctx context.Context) error {
	leased := manner{settings: event.Settings{Idempotency: true, ClaimLease: true}}
	var halves, p50s, p95s, p99s, counts []float64
	for round := range b.Rounds {
		b.say(fmt.Sprintf("latency, the full load, round %d of %d", round+1, b.Rounds))
		full, err := b.consumeAs(ctx, leased)
		if err != nil {
			return err
		}
		half := full.perS / 2
		n := min(int(half*latencyTime.Seconds()), latencyRuns*b.Messages)
		b.say(fmt.Sprintf("latency, %d messages, round %d of %d", n, round+1, b.Rounds))
		took, err := b.delays(ctx, leased, n, half)
		if err != nil {
			return err
		}
		halves, counts = append(halves, half), append(counts, float64(n))
		p50s, p95s, p99s = append(p50s, percentile(took, 50)), append(p95s, percentile(took, 95)), append(p99s, percentile(took, 99))
	}
	b.emit(Figure{
		Name: "latency", PerS: median(halves), P50MS: median(p50s), P95MS: median(p95s), P99MS: median(p99s),
		Messages: int(median(counts)), Runs: b.Rounds, With: "half of the full load",
	})
	return nil
}

// delays returns how long each of n messages took that were published at this rate a
// second.
func (b *bench) delays(ctx context.Context, m manner, n int, perS float64) ([]time.Duration, error) {
	defer func() { _, _ = idem.Forget(context.WithoutCancel(ctx), b.redis, b.Namespace) }()
	times := make([]struct{ published, accepted atomic.Int64 }, n) // since began
	began := time.Now()
	passed := func() int64 { return int64(time.Since(began)) }
	working, stop := context.WithCancel(ctx)
	defer stop()
	run, closing, err := b.worker(working, m, n)
	if err != nil {
		return nil, err
	}
	defer closing()
	run.Sender = timed{run.Sender, func(id string) { times[indexOf(id)].accepted.CompareAndSwap(0, passed()) }}
	ended := make(chan error, 1)
	go func() { ended <- run.Run(working) }()

	b.fills++
	pace := func(i int) error {
		if err := until(ctx, began.Add(time.Duration(float64(i)/perS*float64(time.Second)))); err != nil {
			return err
		}
		times[i].published.Store(passed())
		return nil
	}
	if err = b.publishEach(ctx, n, pace); err == nil {
		err = run.await(ended)
	}
	stop()
	if err = cmp.Or(err, <-ended); err != nil {
		return nil, err
	}
	took := make([]time.Duration, n)
	for i := range times {
		took[i] = time.Duration(times[i].accepted.Load() - times[i].published.Load())
	}
	return took, nil
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
