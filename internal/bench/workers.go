package bench

import (
	"context"
	"fmt"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/provider"
)

// sendTime is what a send takes when workers are counted: they wait for the
// provider then, and more of them wait at the same time.
const sendTime = 20 * time.Millisecond

// eachWorker is how many messages a worker has then.
const eachWorker = 1500

// workers measures what several worker processes send in a second, each with the
// worker's own defaults, to a provider that takes its time.
func (b *bench) workers(ctx context.Context) error {
	var first base
	for i, name := range workersNames(b.Workers) {
		n := b.Workers[i]
		if !b.wants(name) {
			continue
		}
		var rates []float64
		for round := range b.Rounds {
			b.say(fmt.Sprintf("%s, round %d of %d", name, round+1, b.Rounds))
			var perS float64
			err := b.withWorkers(ctx, n, func(w *working) (err error) {
				perS, err = w.send(ctx, n*eachWorker)
				return err
			}, "--events", "summary", "--idempotency", "on", "--claim-lease", "on", "--provider-key", "off")
			if err != nil {
				return err
			}
			rates = append(rates, perS)
		}
		f := Figure{Name: name, PerS: median(rates), Messages: n * eachWorker, Runs: len(rates), With: "workers' defaults, sends of " + sendTime.String()}
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
func (w *working) send(ctx context.Context, n int) (float64, error) {
	w.provider.SetFaults(provider.Faults{Delay: []provider.Delay{{For: sendTime}}})
	w.fills++
	began := time.Now()
	if err := w.publishEach(ctx, n, func(int) error { return nil }); err != nil {
		return 0, err
	}
	err := w.provider.Await(ctx, func(l *provider.Ledger) bool { return l.Count(event.Accepted) >= n })
	return rate(n, began), err
}
