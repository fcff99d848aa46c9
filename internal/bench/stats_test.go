package bench

import (
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		all  []float64
		want float64
	}{{nil, 0}, {[]float64{7}, 7}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		given := append([]float64(nil), c.all...)
		if got := median(c.all); got != c.want {
			t.Errorf("%v: %v, want %v", c.all, got, c.want)
		}
		for i := range given {
			if c.all[i] != given[i] {
				t.Errorf("%v became %v", given, c.all)
			}
		}
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	var hundred []time.Duration
	for i := 100; i > 0; i-- {
		hundred = append(hundred, time.Duration(i)*time.Millisecond)
	}
	for _, c := range []struct {
		all  []time.Duration
		p    int
		want float64
	}{{nil, 50, 0}, {hundred[:1], 50, 100}, {hundred[:1], 99, 100}, {hundred, 50, 50}, {hundred, 95, 95}, {hundred, 99, 99}, {hundred[:2], 50, 99}} {
		if got := percentile(c.all, c.p); got != c.want {
			t.Errorf("p%d of %d: %v, want %v", c.p, len(c.all), got, c.want)
		}
	}
}

func TestWants(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		only []string
		name string
		want bool
	}{
		{nil, "consume", true}, {nil, "consume/lease", true},
		{[]string{"consume"}, "consume/lease", true}, {[]string{"consume"}, "publish/bare", false},
		{[]string{"consume/lease"}, "consume", true}, {[]string{"consume/lease"}, "consume/lease", true}, {[]string{"consume/lease"}, "consume/lease+key", false},
		{[]string{"memory/10000"}, "memory/1000", false}, {[]string{"latency", "recovery"}, "recovery/second", true},
	} {
		if got := (&bench{Config: Config{Only: c.only}}).wants(c.name); got != c.want {
			t.Errorf("only %q: %s is %t", c.only, c.name, got)
		}
	}
}

// Figures are set against the first that was measured, by its name: with --only that
// need not be the first that there is.
func TestBase_set(t *testing.T) {
	t.Parallel()
	var first base
	small, large := Figure{Name: "memory/100000"}, Figure{Name: "memory/1000000"}
	first.set(&small, 50)
	first.set(&large, 60)
	if small.Ratio != 0 || small.Against != "" || large.Ratio != 1.2 || large.Against != "memory/100000" {
		t.Errorf("got %+v and %+v", small, large)
	}
}
