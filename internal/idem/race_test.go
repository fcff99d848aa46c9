package idem

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"notifylab/internal/notify"
)

// Many workers claim few keys, complete, release, claim again and die. Nobody
// ever has what another has, and every answer is one of the five. (hookdeck/outpost#36)
func TestClaim_Race(t *testing.T) {
	t.Parallel()
	const workers, keys, claims = 8, 50, 10_000
	l := newLab(t)
	ctx := soon(t)
	var holders [keys]atomic.Int32
	var verdicts [Busy + 1]atomic.Int32
	var done [keys]atomic.Bool
	var began atomic.Int32

	work := func(seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		s := l.worker(l.redis)
		for began.Add(1) <= claims {
			k := random.IntN(keys)
			n := notify.Notification{ID: "n-" + strconv.Itoa(k), User: "7", Text: "hello"}
			c := s.Claim(n, notify.Push, random.IntN(10) > 0)
			before := done[k].Load()
			v, found, err := c.Try(ctx)
			if err != nil || v < Acquired || v > Busy {
				t.Errorf("seed %d, %s: %v, %v", seed, c.Key(), v, err)
				return
			}
			verdicts[v].Add(1)
			if v != Acquired && v != Recovered {
				if v == Conflict {
					t.Errorf("seed %d, %s: a conflict with %v", seed, c.Key(), found)
				}
				continue
			}
			if before {
				t.Errorf("seed %d, %s: %v although it is done", seed, c.Key(), v)
			}
			if h := holders[k].Add(1); h != 1 {
				t.Errorf("seed %d, %s: %d have it", seed, c.Key(), h)
			}
			if random.IntN(4) == 0 {
				if v, found, err := c.Again(ctx); v != Acquired || err != nil {
					t.Errorf("seed %d, %s: again: %v (%v), %v", seed, c.Key(), v, found, err)
				}
			}
			holders[k].Add(-1) // before anybody else can have it
			switch fate := random.IntN(100); {
			case fate == 0:
				if ours, err := c.Complete(ctx); !ours || err != nil {
					t.Errorf("seed %d, %s: complete: %v, %v", seed, c.Key(), ours, err)
				}
				done[k].Store(c.State() == Pending)
			case fate < 5 && c.State() == Pending: // it dies, and another takes its place
				if err := s.slot.Free(); err != nil {
					t.Error(err)
				}
				s = l.worker(l.redis)
			default:
				if ours, err := c.Release(ctx); !ours || err != nil {
					t.Errorf("seed %d, %s: release: %v, %v", seed, c.Key(), ours, err)
				}
			}
		}
	}
	var wg sync.WaitGroup
	for range workers {
		seed := rand.Uint64()
		wg.Go(func() { work(seed) })
	}
	wg.Wait()
	for v := range verdicts {
		n := verdicts[v].Load()
		t.Logf("%v: %d", Verdict(v), n)
		if n == 0 && Verdict(v) != Conflict {
			t.Errorf("never %v: the race raced for nothing", Verdict(v))
		}
	}
}

// Of those who find the same owner dead one has the record, and the others see
// that a living one has.
func TestRecover_OnlyOne(t *testing.T) {
	t.Parallel()
	const rounds, recoverers = 200, 3
	l := newLab(t)
	ctx := soon(t)
	dead := l.dead()
	stores := make([]*Store, recoverers)
	for i := range stores {
		stores[i] = l.worker(l.redis)
	}
	for round := range rounds {
		n := notify.Notification{ID: "n-" + strconv.Itoa(round), User: "7", Text: "hello"}
		record := Record{State: Pending, Owner: dead, Nonce: "theirs", Fingerprint: notify.Fingerprint(n)}
		l.put(l.ns.Key(notify.Key(n, notify.Push)), record.String(), testLease)
		var got [Busy + 1]atomic.Int32
		var wg sync.WaitGroup
		for _, s := range stores {
			wg.Go(func() {
				v, _, err := s.Claim(n, notify.Push, true).Try(ctx)
				if err != nil {
					t.Error(err)
				}
				got[v].Add(1)
			})
		}
		wg.Wait()
		if r, b := got[Recovered].Load(), got[Busy].Load(); r != 1 || b != recoverers-1 {
			t.Fatalf("round %d: %d recovered it, %d found it busy", round, r, b)
		}
	}
}

// A claim that is not begun leaves nothing.
func TestTry_AfterItsContextEnded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c := l.worker(l.redis).Claim(hello, notify.Push, true)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if v, _, err := c.Try(ctx); err == nil {
		t.Errorf("want an error, got %v", v)
	}
	l.is(c.Key(), "", 0)
}
