package idem

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A holder is a process that holds a slot.
type holder struct {
	owner Owner
	cmd   *exec.Cmd
	stdin io.Closer
	ended bool
}

// hold starts a process that takes a slot, and returns when it has one.
func hold(t *testing.T, dir string) *holder {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), slotHolder+"="+dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &holder{cmd: cmd, stdin: stdin}
	t.Cleanup(func() { h.end(t, unix.SIGKILL) })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if h.owner, err = ParseOwner(strings.TrimSpace(line)); err != nil {
		t.Fatal(err)
	}
	return h
}

// end sends a signal, or closes the standard input if that is 0, and returns when
// the process is gone.
func (h *holder) end(t *testing.T, s unix.Signal) {
	t.Helper()
	if h.ended {
		return
	}
	h.ended = true
	_ = h.stdin.Close()
	if s != 0 {
		_ = h.cmd.Process.Signal(s)
	}
	if err := h.cmd.Wait(); err != nil && s == 0 {
		t.Error(err)
	}
}

// stop sends SIGSTOP and returns when the process stands still.
func (h *holder) stop(t *testing.T) {
	t.Helper()
	if err := h.cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(h.cmd.Process.Pid, &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("not stopped: %v, %v", status, err)
	}
}
