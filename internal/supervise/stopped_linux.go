package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Stopped says whether the process pid is stopped by a signal: every thread of
// it, since a thread can run on for a moment after the first has stopped, long
// enough to write an ack. ErrNotRunning: there is no such process, or it is
// dead.
func Stopped(pid int) (bool, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "task")
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return false, stateError(pid, err)
	}
	for _, t := range tasks {
		stat, err := os.ReadFile(filepath.Join(dir, t.Name(), "stat"))
		if gone(err) && t.Name() != strconv.Itoa(pid) {
			continue // a thread that ended since the listing
		}
		if err != nil {
			return false, stateError(pid, err)
		}
		// The state follows the name, which is in brackets and may hold some.
		i := bytes.LastIndexByte(stat, ')')
		if i < 0 || i+2 >= len(stat) {
			return false, fmt.Errorf("read state of %d: %q", pid, stat)
		}
		switch stat[i+2] {
		case 'T':
		case 'Z', 'X':
			if t.Name() == strconv.Itoa(pid) {
				return false, stateError(pid, fs.ErrNotExist)
			}
		default:
			return false, nil
		}
	}
	return true, nil
}

func stateError(pid int, err error) error {
	if gone(err) {
		err = ErrNotRunning
	}
	return fmt.Errorf("read state of %d: %w", pid, err)
}

// gone knows both ways in which the kernel says that a process ended: before
// the file was opened, and while it was read.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}
