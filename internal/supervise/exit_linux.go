package supervise

import (
	"errors"

	"golang.org/x/sys/unix"
)

// awaitDeath returns when the child pid is dead, and leaves it to be reaped.
// An error other than an interruption can only be that it is no child any
// more.
func awaitDeath(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
