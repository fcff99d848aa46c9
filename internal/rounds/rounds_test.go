package rounds

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// However many ask there is one round at a time, and nobody gets an answer from before
// the question.
func TestRounds(t *testing.T) {
	t.Parallel()
	var clock, running, rounds atomic.Int64
	r := New(func(since time.Time) (int64, error) {
		if n := running.Add(1); n > 1 {
			t.Errorf("%d rounds at a time", n)
		}
		defer running.Add(-1)
		rounds.Add(1)
		if since.After(time.Now()) {
			t.Errorf("since %v, which is to come", since)
		}
		now := clock.Load()
		runtime.Gosched() // whoever comes now is too late for this one
		return now, nil
	})
	const askers, times = 64, 100
	var all sync.WaitGroup
	for range askers {
		all.Go(func() {
			for range times {
				asked := clock.Add(1)
				if answer, err := r.Join().Wait(t.Context()); err != nil || answer < asked {
					t.Errorf("asked at %d, the answer is of %d: %v", asked, answer, err)
				}
			}
		})
	}
	all.Wait()
	r.Drain()
	if n := rounds.Load(); n == 0 || n > askers*times || running.Load() != 0 {
		t.Errorf("%d rounds for %d questions, %d on their way", n, askers*times, running.Load())
	}
}
