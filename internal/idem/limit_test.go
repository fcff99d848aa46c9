package idem

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Whenever somebody begins to wait, the wait is answer at least and a grain more at
// most; and those of one grain share a timer.
func TestLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l limit
		var waits sync.WaitGroup
		defer waits.Wait()
		different := map[context.Context]bool{}
		for range 50 {
			ctx, began := l.now(), time.Now()
			different[ctx] = true
			waits.Go(func() {
				<-ctx.Done()
				if took := time.Since(began); took < answer || took > answer+grain {
					t.Errorf("it ended after %v, want %v to %v", took, answer, answer+grain)
				}
				if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("it ended because of %v", err)
				}
			})
			<-time.After(grain / 10)
		}
		if n := len(different); n > 6 {
			t.Errorf("%d timers for five grains", n)
		}
	})
}
