package bench

import (
	"context"
	"fmt"
)

// A way is one way of doing the same work.
type way struct {
	name string
	// run does it with so many messages and returns how fast it was.
	run func(context.Context) (pace, error)
	// like is the bare way to do as much, if there is one.
	like string
}

// A pace is how fast some messages were done, and what it took.
type pace struct {
	perS    float64
	redisUS float64 // of Redis's CPU time for a message, in microseconds, if it was asked
}

// compare runs every way that is wanted once in each round, with the bare one at the round's
// start and at its end, and emits each one's median and its ratio to the bare one.
func (b *bench) compare(ctx context.Context, bare way, ways ...way) error {
	var wanted []way
	for _, w := range ways {
		if b.wants(w.name) {
			wanted = append(wanted, w)
		}
	}
	rates, redis := map[string][]float64{}, map[string][]float64{}
	once := func(round int, w way) error {
		b.say(fmt.Sprintf("%s, round %d of %d", w.name, round, b.Rounds))
		p, err := w.run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		rates[w.name], redis[w.name] = append(rates[w.name], p.perS), append(redis[w.name], p.redisUS)
		return nil
	}
	for round := 1; round <= b.Rounds; round++ {
		for _, w := range append(append([]way{bare}, wanted...), bare) {
			if err := once(round, w); err != nil {
				return err
			}
		}
	}
	ceiling := median(rates[bare.name])
	for _, w := range append([]way{bare}, wanted...) {
		all := rates[w.name]
		f := Figure{Name: w.name, PerS: median(all), RedisUS: median(redis[w.name]), Runs: len(all)}
		if w.name != bare.name {
			f.Ratio, f.Against = f.PerS/ceiling, bare.name
		}
		if like := rates[w.like]; len(like) > 0 {
			f.LikeRatio, f.Like = f.PerS/median(like), w.like
		}
		b.emit(f)
	}
	return nil
}
