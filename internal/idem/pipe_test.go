package idem

import (
	"fmt"
	"sync"
	"testing"

	"notifylab/internal/notify"
)

// What goes wrong with one command of a batch is that one's alone, and each has its own
// answer: among many that claim at the same time every fifth meets a key of another
// type, and every seventh a record that is done.
func TestBatch_EachHasItsOwnAnswer(t *testing.T) {
	t.Parallel()
	l := newLab(t)
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
}
