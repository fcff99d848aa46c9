package bench

import (
	"context"
	"fmt"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/lab"
	"notifylab/internal/provider"
)

// sendTime is what a send takes when workers are counted: they wait for the
// provider then, and more of them wait at the same time.
const sendTime = 20 * time.Millisecond

// eachWorker is how many messages a worker has then.
const eachWorker = 1500

// workers measures what several worker processes send in a second, each with the
// worker's own defaults and a lease, to a provider that takes its time.
func (b *bench) workers(ctx context.Context) error {
	on := map[string]bool{"idempotency": true, "claim-lease": true, "provider-key": false}
	if err := lab.NewSettings(b.redis, b.Namespace).Set(ctx, on); err != nil {
		return err
	}
	var first base
	for i, name := range workersNames(b.Workers) {
		n := b.Workers[i]
		if !b.wants(name) {
			continue
		}
		var rates, redis []float64
		for round := range b.Rounds {
			b.say(fmt.Sprintf("%s, round %d of %d", name, round+1, b.Rounds))
			var p pace
			err := b.withWorkers(ctx, n, func(w *working) (err error) {
				p, err = w.send(ctx, n*eachWorker)
				return err
			})
			if err != nil {
				return err
			}
			rates, redis = append(rates, p.perS), append(redis, p.redisUS)
		}
		f := Figure{
			Name: name, PerS: median(rates), RedisUS: median(redis), Messages: n * eachWorker, Runs: len(rates),
			With: "workers' defaults, a lease, sends of " + sendTime.String(),
		}
		first.set(&f, f.PerS)
		b.emit(f)
	}
	return nil
}

func workersNames(workers []int) (names []string) {
	for _, n := range workers {
		names = append(names, fmt.Sprintf("workers/%d", n))
	}
	return names
}

// send publishes n messages and returns how many a second were accepted, from the
// first publish to the last acceptance.
func (w *working) send(ctx context.Context, n int) (pace, error) {
	w.provider.SetFaults(provider.Faults{Delay: []provider.Delay{{For: sendTime}}})
	w.fills++
	meter, err := w.startMeter(ctx, n)
	if err != nil {
		return pace{}, err
	}
	if err := w.publishEach(ctx, n, func(int) error { return nil }); err != nil {
		return pace{}, err
	}
	if err := w.provider.Await(ctx, func(l *provider.Ledger) bool { return l.Count(event.Accepted) >= n }); err != nil {
		return pace{}, err
	}
	return meter.stop(ctx)
}
