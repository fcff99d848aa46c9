package bench

import (
	"slices"
	"time"
)

// median returns the middle of some numbers, 0 of none.
func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// percentile returns the smallest of some durations that p percent of them do not
// exceed, in milliseconds; 0 of none.
func percentile(all []time.Duration, p int) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	i := (len(sorted)*p + 99) / 100
	return float64(sorted[max(i-1, 0)]) / float64(time.Millisecond)
}

// A base is the first figure of a series, against which the others are set.
type base struct {
	name  string
	value float64
}

// set makes f the base if there is none, else gives it its ratio to that.
func (b *base) set(f *Figure, value float64) {
	if b.name == "" {
		*b = base{f.Name, value}
		return
	}
	f.Ratio, f.Against = value/b.value, b.name
}
