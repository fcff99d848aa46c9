package lab

import (
	"sync"
	"sync/atomic"
	"testing"

	"notifylab/internal/notify"
)

func TestMarks_FirstIsOne(t *testing.T) {
	t.Parallel()
	c, _ := dial(t)
	ns := place(t, c)
	ctx := soon(t)
	for _, point := range []Point{"after-claim", "before-ack"} {
		var firsts atomic.Int32
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				first, err := NewMarks(c, ns).First(ctx, "n-1", "push", point)
				if err != nil {
					t.Error(err)
				}
				if first {
					firsts.Add(1)
				}
			})
		}
		wg.Wait()
		if n := firsts.Load(); n != 1 {
			t.Errorf("%s: %d were the first", point, n)
		}
	}
	for _, other := range []struct {
		ns      notify.Namespace
		id, who string
	}{{ns, "n-2", "push"}, {ns, "n-1", "email"}, {place(t, c), "n-1", "push"}} {
		if first, err := NewMarks(c, other.ns).First(ctx, other.id, other.who, "after-claim"); !first || err != nil {
			t.Errorf("%v: want a first time of its own, got %v, %v", other, first, err)
		}
	}
	key := ns.Key("crash:n-1:push:after-claim")
	if ttl := c.TTL(ctx, key).Val(); ttl > markMemory || ttl < markMemory/2 {
		t.Errorf("%s is remembered for %v", key, ttl)
	}
}

// The client asks again when a reply is lost, and is the first all the same.
func TestMarks_LostReply(t *testing.T) {
	t.Parallel()
	c, n := dial(t)
	m := NewMarks(c, place(t, c))
	n.losing("set", 1)
	if first, err := m.First(soon(t), "n-1", "push", "mid-send"); !first || err != nil {
		t.Errorf("want the first, got %v, %v", first, err)
	}
	if sent := n.count("set"); sent != 2 {
		t.Errorf("want the mark twice, got it %d times", sent)
	}
	if first, err := m.First(soon(t), "n-1", "push", "mid-send"); first || err != nil {
		t.Errorf("want no second, got %v, %v", first, err)
	}
	n.losing("set", 2)
	if first, err := m.First(soon(t), "n-2", "push", "mid-send"); first || err == nil {
		t.Errorf("want an error, got %v", first)
	}
}
