package idem

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot goes on in suspend, which CLOCK_MONOTONIC does not.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0 // the wall clock decides alone
	}
	return time.Duration(t.Nano())
}

func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}
