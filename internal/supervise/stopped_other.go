//go:build !linux

package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
)

// Stopped says whether the process pid is stopped by a signal. ErrNotRunning:
// there is no such process, or it is dead.
func Stopped(pid int) (bool, error) {
	out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	state := bytes.TrimSpace(out)
	var none *exec.ExitError // ps found no process
	if errors.As(err, &none) || err == nil && (len(state) == 0 || state[0] == 'Z') {
		err = ErrNotRunning
	}
	if err != nil {
		return false, fmt.Errorf("read state of %d: %w", pid, err)
	}
	return state[0] == 'T', nil
}
