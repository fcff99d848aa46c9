package worker

import (
	"context"
	"sync"
	"time"
)

// How often the deliveries that wait are looked at.
const (
	lookAtOwners  = 100 * time.Millisecond // is whoever has the record dead?
	lookAtRecords = 250 * time.Millisecond // has the record changed?
)

// Waits of a delivery whose copy could not be made.
const (
	firstCopyWait = time.Second
	longCopyWait  = 30 * time.Second
)

// waiting is a shift's deliveries that nobody handles now and that are not
// settled: the record of one is somebody else's, the copy of another could not be
// made. They hold no handler.
type waiting struct {
	mu    sync.Mutex
	busy  []*handling
	wake  chan struct{} // holds one: somebody came
	again chan *handling
}

func newWaiting() *waiting {
	return &waiting{wake: make(chan struct{}, 1), again: make(chan *handling)}
}

func (w *waiting) add(h *handling) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = append(w.busy, h)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *waiting) all() []*handling {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*handling(nil), w.busy...)
}

func (w *waiting) remove(h *handling) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, other := range w.busy {
		if other == h {
			w.busy = append(w.busy[:i], w.busy[i+1:]...)
			return
		}
	}
}

// run gives again what need not wait any more, until ctx ends.
func (w *waiting) run(ctx context.Context) {
	looked := time.Now()
	for {
		if len(w.all()) == 0 {
			select {
			case <-w.wake:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(lookAtOwners):
		case <-ctx.Done():
			return
		}
		records := time.Since(looked) >= lookAtRecords
		if records {
			looked = time.Now()
		}
		for _, h := range w.all() {
			if !h.free(ctx, records) {
				continue
			}
			w.remove(h)
			select {
			case w.again <- h:
			case <-ctx.Done():
				return
			}
		}
	}
}

// free says whether a busy delivery is worth another handling.
func (h *handling) free(ctx context.Context, lookAtRecord bool) bool {
	if h.Records.Dead(h.found.Owner) {
		return true
	}
	if !lookAtRecord {
		return false
	}
	still, err := h.claim.Still(ctx, h.found)
	return err == nil && !still
}

// untilFree waits for one busy delivery alone. It returns false if ctx ends
// first.
func (h *handling) untilFree(ctx context.Context) bool {
	looked := time.Now()
	for {
		select {
		case <-time.After(lookAtOwners):
		case <-ctx.Done():
			return false
		}
		records := time.Since(looked) >= lookAtRecords
		if records {
			looked = time.Now()
		}
		if h.free(ctx, records) {
			return true
		}
	}
}

// copyWait returns how long to wait before a copy is tried again, longer each
// time.
func (h *handling) copyWait() time.Duration {
	wait := firstCopyWait << min(h.waits, 5)
	h.waits++
	return min(wait, longCopyWait)
}
