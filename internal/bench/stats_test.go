package bench

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
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
		{nil, "consume/lease", true},
		{[]string{"consume"}, "consume/lease", true}, {[]string{"consume"}, "publish/bare", false},
		{[]string{"consume/lease"}, "consume/lease", true}, {[]string{"consume/lease"}, "consume/lease+key", false},
		{[]string{"memory/10000"}, "memory/1000", false}, {[]string{"latency", "recovery"}, "recovery/second", true},
		{[]string{"recovery"}, "recovery", true}, {[]string{"recovery/second"}, "recovery", false},
	} {
		b := &bench{Config: Config{Only: c.only}}
		if got := b.wants(c.name); got != c.want {
			t.Errorf("only %q: %s is %t", c.only, c.name, got)
		}
		if part, _, _ := strings.Cut(c.name, "/"); c.want && !b.wantsOf(part) {
			t.Errorf("only %q: nothing of %s", c.only, part)
		}
	}
	if (&bench{Config: Config{Only: []string{"consume/none"}}}).wantsOf("publish") {
		t.Error("only consume/none: publish, too")
	}
}

// The bare one runs first and last in each round, and medians are set against the median
// of all its runs, and against that of the one that does as much, if that ran.
func TestCompare(t *testing.T) {
	t.Parallel()
	rates := map[string][]float64{"bare": {100, 300, 200, 800}, "like": {100, 20}, "x": {50, 150}, "y": {30, 10}}
	for name, tt := range map[string]struct {
		only  []string
		order string
		want  []Figure
	}{
		"all": {nil, "bare like x y bare bare like x y bare", []Figure{
			{Kind: "figure", Name: "bare", PerS: 250, RedisUS: 25, Runs: 4},
			{Kind: "figure", Name: "like", PerS: 60, RedisUS: 6, Ratio: 0.24, Against: "bare", Runs: 2},
			{Kind: "figure", Name: "x", PerS: 100, RedisUS: 10, Ratio: 0.4, Against: "bare", LikeRatio: 100 / 60., Like: "like", Runs: 2},
			{Kind: "figure", Name: "y", PerS: 20, RedisUS: 2, Ratio: 0.08, Against: "bare", Runs: 2},
		}},
		"one, without the one like it": {[]string{"x"}, "bare x bare bare x bare", []Figure{
			{Kind: "figure", Name: "bare", PerS: 250, RedisUS: 25, Runs: 4},
			{Kind: "figure", Name: "x", PerS: 100, RedisUS: 10, Ratio: 0.4, Against: "bare", Runs: 2},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var order []string
			var got []Figure
			called := map[string]int{}
			new := func(name, like string) way {
				return way{name: name, like: like, run: func(context.Context) (pace, error) {
					order = append(order, name)
					called[name]++
					r := rates[name][called[name]-1]
					return pace{r, r / 10}, nil
				}}
			}
			b := &bench{Config: Config{Only: tt.only, Rounds: 2, Emit: func(f Figure) { got = append(got, f) }, Progress: func(string, int, int) {}}}
			if err := b.compare(t.Context(), new("bare", ""), new("like", ""), new("x", "like"), new("y", "")); err != nil {
				t.Fatal(err)
			}
			if strings.Join(order, " ") != tt.order || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("in order %q\n got %+v\nwant %+v", order, got, tt.want)
			}
		})
	}
}

func TestCPUTime(t *testing.T) {
	t.Parallel()
	info := "# CPU\r\nused_cpu_sys:1.250000\r\nused_cpu_user:2.500000\r\nused_cpu_sys_children:7.0\r\nused_cpu_user_main_thread:9\r\n"
	if got := cpuTime(info); got != 3750*time.Millisecond {
		t.Errorf("got %v", got)
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

// What has arrived is acked by one ack.
func TestBench_ackTogether(t *testing.T) {
	t.Parallel()
	tags := make(chan uint64, 100)
	for tag := range uint64(100) {
		tags <- tag + 1
	}
	var acks []uint64
	err := (&bench{Config: Config{Messages: 100}}).ackTogether(tags, func(tag uint64) error { acks = append(acks, tag); return nil })
	if err != nil || !slices.Equal(acks, []uint64{100}) {
		t.Errorf("acks %v, %v", acks, err)
	}
	close(tags)
	if err := (&bench{Config: Config{Messages: 1}}).ackTogether(tags, nil); err == nil {
		t.Error("no error of a channel that has closed")
	}
}

// So many are on their way before the first is confirmed, and no more.
func TestWindowed(t *testing.T) {
	t.Parallel()
	const all = bareWindow + 100
	var under, most atomic.Int64
	full := make(chan struct{})
	publish := func(i int) (int, error) {
		if n := under.Add(1); n > most.Load() {
			most.Store(n)
		}
		if i == bareWindow {
			close(full)
		}
		return i, nil
	}
	next := 0
	err := windowed(patient(t), all, publish, func(ctx context.Context, i int) error {
		select {
		case <-full:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if i != next {
			t.Errorf("%d confirmed, want %d", i, next)
		}
		next++
		under.Add(-1)
		return nil
	})
	// One more is in the hands of whoever awaits its confirm, one of whoever publishes.
	if n := most.Load(); err != nil || next != all || n < bareWindow || n > bareWindow+2 {
		t.Errorf("%d at most, %d confirmed, %v", n, next, err)
	}
}

func TestBench_halfLoad(t *testing.T) {
	t.Parallel()
	b := &bench{Config: Config{Messages: 1000}}
	for full, want := range map[float64][2]float64{400: {200, 1000}, 20_000: {10_000, 5000}, 0.1: {0.05, 1}} {
		if perS, n := b.halfLoad(full); perS != want[0] || n != int(want[1]) {
			t.Errorf("of %v: %v, %d", full, perS, n)
		}
	}
}
