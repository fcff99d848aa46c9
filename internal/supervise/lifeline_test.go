package supervise

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"notifylab/internal/event"
)

// Supervisor/supervisor#1101
func TestLifeline_children_of_a_killed_supervisor_go_running_and_stopped_ones(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Policy: quick})
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=supervisor")
	cmd.Stderr = os.Stderr
	// A session of its own, so that whoever adopts its children here is in
	// another: what a machine's init is.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	pids := map[string]int{}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		e, err := event.Decode(lines.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == event.Ready {
			pids[e.Source] = e.PID
		}
		if e.Kind == event.Note {
			break
		}
	}
	if len(pids) != 3 {
		t.Fatalf("up: %v, want three", pids)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, pid := range pids {
				killPid(pid)
			}
		}
	})
	for name, pid := range pids {
		if stopped, err := Stopped(pid); err != nil || stopped != (name == "c") {
			t.Fatalf("before the kill %s is stopped: %t, %v", name, stopped, err)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		b.awaitGone(pid)
	}
}

// setLifeline puts fd into the environment as a supervisor would.
func setLifeline(t *testing.T, fd int) {
	t.Helper()
	t.Setenv(lifelineEnv, strconv.Itoa(fd))
}

func TestLifeline_is_cut_when_its_last_write_end_closes_and_is_not_inherited(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(r.Fd())) // as a child has it: inherited on exec
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	setLifeline(t, fd)
	l, err := OpenLifeline()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if v, ok := os.LookupEnv(lifelineEnv); ok {
		t.Errorf("the environment still has %q", v)
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("descriptor flags %#x, %v: would be inherited", flags, err)
	}
	if closed(l.Lost()) {
		t.Error("cut before its time")
	}
	w.Close()
	<-l.Lost()
}

func TestLifeline_close_ends_the_watching(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	fd, err := unix.Dup(int(r.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	setLifeline(t, fd)
	l, err := OpenLifeline()
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	l.Close()
	<-l.Lost()
}

func TestLifeline_without_a_supervisor_is_never_cut(t *testing.T) {
	l, err := OpenLifeline()
	if err != nil || l.Lost() != nil {
		t.Errorf("lifeline %v, %v, want none", l.Lost(), err)
	}
	l.Close()
}

func TestLifeline_refuses_what_is_no_pipe_and_leaves_it_alone(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	setLifeline(t, int(f.Fd()))
	if _, err := OpenLifeline(); err == nil {
		t.Error("a device was taken for a lifeline")
	}
	if _, err := f.Stat(); err != nil {
		t.Errorf("the file was closed: %v", err)
	}
	for _, value := range []string{"", "x", "0", "1000000"} {
		t.Setenv(lifelineEnv, value)
		if _, err := OpenLifeline(); err == nil {
			t.Errorf("%q was taken for a lifeline", value)
		}
	}
}

func killPid(pid int) { _ = unix.Kill(pid, unix.SIGKILL) }
