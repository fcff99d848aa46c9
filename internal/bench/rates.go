package bench

import (
	"context"
	"fmt"
)

// A way is one way of doing the same work.
type way struct {
	name string
	// run does it with so many messages and returns how many it did in a second.
	run func(context.Context) (float64, error)
	// like is the bare way to do as much, if there is one.
	like string
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
	rates := map[string][]float64{}
	once := func(round int, w way) error {
		b.say(fmt.Sprintf("%s, round %d of %d", w.name, round, b.Rounds))
		rate, err := w.run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		rates[w.name] = append(rates[w.name], rate)
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
		f := Figure{Name: w.name, PerS: median(all), Runs: len(all)}
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
