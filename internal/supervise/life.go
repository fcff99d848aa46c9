package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"notifylab/internal/event"
)

// A life is one running process and what hangs on it.
type life struct {
	cmd  *exec.Cmd
	pid  int           // of the process and of the group that it leads
	ours []*os.File    // our ends: stdout, stderr, lifeline
	dead chan struct{} // closed: the leader is dead and waits to be reaped
	read chan struct{} // closed: both outputs were read to their end

	// Written by the readers, to be read when read is closed.
	ready   time.Time // of its first READY
	settled bool      // it got something done
	held    bool      // others still held its output open
}

// An ending is how a life ended.
type ending struct {
	how     string // exit 3, killed, terminated, not started
	reason  string // more about it, or nothing
	status  int    // its exit status, -1 if it has none
	healthy bool   // it ends a row of restarts
}

// begin forks the next life and starts to read what it writes. After an error
// nothing runs.
func (p *Process) begin() (*life, error) {
	l, err := fork(p.child)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.child.Name, err)
	}
	p.setLife(l)
	// attend waits for all three.
	go func() {
		defer close(l.dead)
		awaitDeath(l.pid)
	}()
	stderr := make(chan bool, 1)
	go func() {
		stderr <- readLines(l.ours[1], maxText, func(b []byte, more int) { p.log(l, b, more) })
	}()
	go func() {
		defer close(l.read)
		held := readLines(l.ours[0], maxEvent, func(b []byte, more int) { p.line(l, b, more) })
		l.held = <-stderr || held
	}()
	return l, nil
}

// fork starts c as the leader of a new group.
func fork(c Child) (*life, error) {
	if len(c.Argv) == 0 {
		return nil, errors.New("no program")
	}
	// Pipes of our own instead of exec's: Wait must not wait for readers, since
	// reaping comes between the sweep and the last words. Both ends are closed
	// on exec, so no sibling inherits one.
	var ours, theirs []*os.File
	defer func() { closeAll(theirs) }()
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(ours)
			return nil, err
		}
		if i == 2 {
			r, w = w, r // the lifeline: the child reads, and we never write
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	env := c.Env
	if env == nil {
		env = os.Environ()
	}
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Stdout, cmd.Stderr = theirs[0], theirs[1]
	cmd.ExtraFiles = theirs[2:] // fd 3
	cmd.Env = append(env[:len(env):len(env)], lifelineEnv+"=3")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		closeAll(ours)
		return nil, err
	}
	return &life{
		cmd:  cmd,
		pid:  cmd.Process.Pid,
		ours: ours,
		dead: make(chan struct{}),
		read: make(chan struct{}),
	}, nil
}

// attend stays with a life until it is over, or ends it if the process is told
// to stop, and returns how it ended. By then its group is gone, its pid
// reaped, and its last line in the sink.
func (p *Process) attend(l *life) ending {
	late := false
	select {
	case <-l.dead:
	case <-p.stop:
		late = !p.terminate(l)
	}
	l.signalGroup(unix.SIGKILL) // the sweep; of one that is over nothing is left to hit
	<-l.dead
	died := time.Now()
	p.setLife(nil) // before the reaping: Signal must not reach the pid's next owner
	end := l.reap()
	l.drain(p.s.config.Policy.WaitDelay)
	healthy := p.s.config.Policy.Healthy
	end.healthy = l.settled || !l.ready.IsZero() && died.Sub(l.ready) >= healthy
	if late {
		end.reason = fmt.Sprintf("did not stop within %s", p.s.config.Policy.Grace)
	}
	if l.held {
		p.say(event.Event{Kind: event.Note, Owner: p.Name(),
			Reason: "a process that left its group held its output open: not read any further"})
	}
	return end
}

// terminate asks the group to stop and returns when all of it is gone, when it
// is to be killed at once, or when the grace is over. It returns false if the
// leader lives on after the grace.
func (p *Process) terminate(l *life) bool {
	if closed(p.kill) {
		return true
	}
	l.signalGroup(unix.SIGTERM)
	// A stopped process gets its SIGTERM only when it goes on.
	l.signalGroup(unix.SIGCONT)
	grace := time.NewTimer(p.s.config.Policy.Grace)
	defer grace.Stop()
	// The leader alone does not tell: a shell dies at once of the SIGTERM, and
	// the worker that it started still drains. It is gone when the pipes end.
	for _, gone := range []<-chan struct{}{l.dead, l.read} {
		select {
		case <-gone:
		case <-p.kill:
			return true
		case <-grace.C:
			return closed(l.dead)
		}
	}
	return true
}

// signalGroup is for use before the reaping only. Its error would say that
// nobody is left to be signalled, which is fine.
func (l *life) signalGroup(sig syscall.Signal) {
	_ = unix.Kill(-l.pid, sig)
}

func (l *life) reap() ending {
	_ = l.cmd.Wait() // its error repeats the state
	state := l.cmd.ProcessState
	if state == nil {
		return ending{how: "lost", status: -1} // somebody else reaped our child
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return ending{how: ws.Signal().String(), status: -1}
	}
	return ending{how: fmt.Sprintf("exit %d", state.ExitCode()), status: state.ExitCode()}
}

// drain waits until the outputs were read to their end, for delay at most if
// others hold them, and lets go of the pipes.
func (l *life) drain(delay time.Duration) {
	deadline := time.Now().Add(delay)
	for _, f := range l.ours[:2] {
		_ = f.SetReadDeadline(deadline) // a pipe always takes one
	}
	<-l.read
	closeAll(l.ours)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // pipe ends: nothing is buffered that could be lost
	}
}
