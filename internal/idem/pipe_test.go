package idem

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/notify"
)

// What goes wrong with one command of a batch is that one's alone, and each has its own
// answer: among many that claim at the same time every fifth meets a key of another
// type, and every seventh a record that is done.
func TestBatch_EachHasItsOwnAnswer(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var batches batchSizes
	l.redis.AddHook(&batches)
	s, before := l.worker(l.redis), l.worker(l.redis)
	const claims = 300
	var all [claims]*Claim
	var want, got [claims]Verdict
	for i := range all {
		n := notify.Notification{ID: fmt.Sprint("n-", i), User: "7", Text: "hello"}
		all[i] = s.Claim(n, notify.Push, true)
		switch {
		case i%5 == 0:
			want[i] = Conflict
			if err := l.redis.RPush(soon(t), all[i].Key(), "other").Err(); err != nil {
				t.Fatal(err)
			}
		case i%7 == 0:
			want[i] = Duplicate
			l.put(all[i].Key(), before.Claim(n, notify.Push, true).Mine().with(Done).String(), testRetention)
		}
	}
	var batch sync.WaitGroup
	for i, claim := range all {
		batch.Go(func() {
			verdict, _, err := claim.Try(soon(t))
			if err == nil && verdict == Acquired {
				var ours bool
				if ours, err = claim.Complete(soon(t)); err == nil && !ours {
					err = fmt.Errorf("it was completed by somebody else")
				}
			}
			if got[i] = verdict; err != nil {
				t.Errorf("%s: %v", claim.Key(), err)
			}
		})
	}
	batch.Wait()
	if got != want {
		t.Errorf("\n got %v\nwant %v", got, want)
	}
	if most := batches.most.Load(); most < 2 {
		t.Errorf("%d together at most", most)
	}
}

// batchSizes sees how many commands go to Redis together.
type batchSizes struct{ most atomic.Int64 }

func (b *batchSizes) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (b *batchSizes) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (b *batchSizes) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for n := int64(len(cmds)); ; {
			if was := b.most.Load(); n <= was || b.most.CompareAndSwap(was, n) {
				return next(ctx, cmds)
			}
		}
	}
}
