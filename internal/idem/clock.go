package idem

import (
	"sync/atomic"
	"time"
)

// An Instant is a moment on two clocks of this machine. A monotonic clock
// stands still while the machine is suspended, on some systems; a wall clock can
// be set back. The later of the two is never behind.
type Instant struct {
	boot time.Duration // since some moment of the past, suspend included where the system can
	wall time.Time     // without its monotonic reading
}

// Now returns this moment.
func Now() Instant { return Instant{boot: sinceBoot(), wall: time.Now().Round(0)} }

// Elapsed returns how long ago i was, by the later of the two clocks; never less
// than nothing.
func (i Instant) Elapsed() time.Duration { return i.until(Now()) }

func (i Instant) until(now Instant) time.Duration {
	return max(0, now.boot-i.boot, now.wall.Sub(i.wall))
}

// A recent reads the clocks for many, since each reading is a system call.
type recent struct{ last atomic.Pointer[reading] }

type reading struct {
	Instant
	at time.Time
}

// fresh is how old a reading can be, on a clock that may stand still in suspend.
const fresh = time.Millisecond

// instant returns a moment of just now, or a little before: what counts from it may
// seem older than it is, and never younger.
func (r *recent) instant() Instant {
	if last := r.last.Load(); last != nil && time.Since(last.at) < fresh {
		return last.Instant
	}
	now := &reading{at: time.Now(), Instant: Now()}
	r.last.Store(now)
	return now.Instant
}
