package supervise

import (
	"context"
	"fmt"
	"time"
)

// look is how often AwaitStopped looks: that a process has stopped is news to
// its parent's wait only, and there it would get between os/exec and its child.
const look = 3 * time.Millisecond

// AwaitStopped waits until the process pid is stopped, all of it (see
// [Stopped]). ErrNotRunning: it died instead.
func AwaitStopped(ctx context.Context, pid int) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		stopped, err := Stopped(pid)
		if err != nil {
			return err
		}
		if stopped {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("await stop of %d: %w", pid, context.Cause(ctx))
		}
	}
}
