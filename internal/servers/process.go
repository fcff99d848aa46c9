package servers

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Process is one process, never another that was given its pid later.
type Process struct {
	PID  int    `json:"pid"`
	Born string `json:"born"` // boot and start time; only ever compared
}

// sighting is what the system says about a pid at one moment.
type sighting struct {
	born    string
	stopped bool // by SIGSTOP or its like
}

// identify records the process that has pid now. The caller knows by other means
// that it is the one it wants: a child not yet waited for, or a file that only
// that process writes.
func identify(pid int) (Process, error) {
	seen, alive, err := observe(pid)
	if err != nil {
		return Process{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	if !alive {
		return Process{}, fmt.Errorf("identify process %d: %w", pid, unix.ESRCH)
	}
	return Process{PID: pid, Born: seen.born}, nil
}

// Alive reports whether this very process runs or is stopped. One that has ended
// and that nobody has waited for is not alive: it holds nothing any more. If the
// system doesn't say, it isn't alive: what can't be recognised isn't ours.
func (p Process) Alive() bool {
	if p.PID <= 0 {
		return false
	}
	seen, alive, err := observe(p.PID)
	return err == nil && alive && seen.born == p.Born
}

func (p Process) stopped() bool {
	seen, alive, err := observe(p.PID)
	return err == nil && alive && seen.born == p.Born && seen.stopped
}

// signal sends sig if the process is alive; to one that is gone it does nothing.
func (p Process) signal(sig unix.Signal) error {
	if !p.Alive() {
		return nil
	}
	if err := unix.Kill(p.PID, sig); err != nil && err != unix.ESRCH {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return nil
}

// awaitGone returns when none of the processes is alive any more.
func awaitGone(ctx context.Context, processes ...Process) error {
	for _, p := range processes {
		if err := await(ctx, func() bool { return !p.Alive() }); err != nil {
			return fmt.Errorf("wait for the end of process %d: %w", p.PID, err)
		}
	}
	return nil
}

// await returns when done says so. It is for what the system has no event for:
// a process that isn't a child, a port that begins to answer.
func await(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}
