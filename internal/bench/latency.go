package bench

import (
	"cmp"
	"context"
	"fmt"
	"math"
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

// latency measures how long a message takes from when its publish is due to the
// provider, with a lease, when half as many come as could be: in each round what can be
// published and handled at once just then, and how long they take at half of that.
func (b *bench) latency(ctx context.Context) error {
	leased := manner{settings: event.Settings{Idempotency: true, ClaimLease: true}}
	var fulls, halves, p50s, p95s, p99s, counts []float64
	for round := range b.Rounds {
		b.say(fmt.Sprintf("latency, the full load, round %d of %d", round+1, b.Rounds))
		_, full, err := b.delays(ctx, leased, b.Messages, atOnce)
		if err != nil {
			return err
		}
		half, n := b.halfLoad(full)
		b.say(fmt.Sprintf("latency, %d messages, round %d of %d", n, round+1, b.Rounds))
		took, perS, err := b.delays(ctx, leased, n, half)
		if err != nil {
			return err
		}
		fulls, halves, counts = append(fulls, full), append(halves, perS), append(counts, float64(n))
		p50s, p95s, p99s = append(p50s, percentile(took, 50)), append(p95s, percentile(took, 95)), append(p99s, percentile(took, 99))
	}
	b.emit(Figure{
		Name: "latency", PerS: median(halves), P50MS: median(p50s), P95MS: median(p95s), P99MS: median(p99s),
		Messages: int(median(counts)), Runs: b.Rounds, With: fmt.Sprintf("half of the full load, %.0f/s in and out at once", median(fulls)),
	})
	return nil
}

// halfLoad returns half of a load, a second, and how many messages that is measured by.
func (b *bench) halfLoad(full float64) (perS float64, n int) {
	perS = full / 2
	return perS, max(1, min(int(perS*latencyTime.Seconds()), latencyRuns*b.Messages))
}

// atOnce is the rate of messages that are all due at the beginning.
const atOnce = math.MaxFloat64

// delays publishes n messages at a rate a second and returns how long each took from
// when it was due, which counts a publisher that is late, and how many were sent in a
// second.
func (b *bench) delays(ctx context.Context, m manner, n int, perS float64) (took []time.Duration, sentPerS float64, err error) {
	defer func() { _, _ = idem.Forget(context.WithoutCancel(ctx), b.redis, b.Namespace) }()
	accepted := make([]atomic.Int64, n) // since began
	began := time.Now()
	passed := func() int64 { return int64(time.Since(began)) }
	working, stop := context.WithCancel(ctx)
	defer stop()
	run, closing, err := b.worker(working, m, n)
	if err != nil {
		return nil, 0, err
	}
	defer closing()
	run.Sender = timed{run.Sender, func(id string) { accepted[indexOf(id)].CompareAndSwap(0, passed()) }}
	ended := make(chan error, 1)
	go func() { ended <- run.Run(working) }()

	b.fills++
	due := func(i int) time.Duration { return time.Duration(float64(i) / perS * float64(time.Second)) }
	pace := func(i int) error { return until(ctx, began.Add(due(i))) }
	if err = b.publishEach(ctx, n, pace); err == nil {
		err = run.await(ended)
	}
	stop()
	if err = cmp.Or(err, <-ended); err != nil {
		return nil, 0, err
	}
	var last time.Duration
	for i := range accepted {
		at := time.Duration(accepted[i].Load())
		took, last = append(took, at-due(i)), max(last, at)
	}
	return took, float64(n) / last.Seconds(), nil
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
