package idem

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot goes on in suspend: CLOCK_MONOTONIC does on this system.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0 // the wall clock decides alone
	}
	return time.Duration(t.Nano())
}

func bootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }
