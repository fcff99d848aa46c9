package supervise

import (
	"errors"

	"golang.org/x/sys/unix"
)

// awaitDeath returns when the child pid is dead, and leaves it to be reaped.
// If the kernel has no queue for us it returns at once, and the child is
// killed with its group: what can't be watched is not left running.
//
// waitid would do on other systems, but here it also returns when the child is
// stopped (golang.org/issue/19314).
func awaitDeath(pid int) {
	queue, err := unix.Kqueue()
	if err != nil {
		return
	}
	defer unix.Close(queue)
	changes, events := make([]unix.Kevent_t, 1), make([]unix.Kevent_t, 1)
	unix.SetKevent(&changes[0], pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	changes[0].Fflags = unix.NOTE_EXIT
	for {
		// That it is dead already comes as an event, too (EV_ERROR, ESRCH).
		_, err := unix.Kevent(queue, changes, events, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
