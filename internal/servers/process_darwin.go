package servers

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// The states of a process in sys/proc.h that matter here.
const (
	sstop = 4
	szomb = 5
)

// observe asks the kernel about a pid. alive is false if there is no such process
// or only what is left of one that nobody has waited for.
func observe(pid int) (seen sighting, alive bool, err error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	// No such process is an answer of no bytes, which x/sys reports as EIO.
	if errors.Is(err, unix.EIO) || errors.Is(err, unix.ESRCH) {
		return sighting{}, false, nil
	}
	if err != nil {
		return sighting{}, false, fmt.Errorf("sysctl kern.proc.pid: %w", err)
	}
	if int(info.Proc.P_pid) != pid || info.Proc.P_stat == szomb {
		return sighting{}, false, nil
	}
	start := info.Proc.P_starttime
	return sighting{
		born:    fmt.Sprintf("%d.%06d", start.Sec, start.Usec),
		stopped: info.Proc.P_stat == sstop,
	}, true, nil
}
