package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// guardScript waits for the end of the guard's input, which is the holder's death
// or its wish, and then kills the group that the guard leads, itself included.
const guardScript = `read -r _; kill -KILL 0`

// child is one server of the holder's and the guard that leads its group. A
// server may be several processes; all that stay in the group end with it.
type child struct {
	name    string
	main    Process // the server itself; not always the process that was started
	started *exec.Cmd
	exited  chan struct{} // closed when started was waited for

	guard    *exec.Cmd
	guarding io.Closer // closing it ends the group
	unguard  chan struct{}
}

// launch starts a program in a new group, writing to output, and returns at once.
// Afterwards the caller must kill the child, also when it has exited by itself.
func launch(name string, cmd *exec.Cmd, output string) (*child, error) {
	log, err := os.OpenFile(output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close() // the program has its own copy

	c := &child{name: name, started: cmd, exited: make(chan struct{}), unguard: make(chan struct{})}
	if err := c.startGuard(); err != nil {
		return nil, fmt.Errorf("start %s: guard: %w", name, err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: c.guard.Process.Pid}
	if err := cmd.Start(); err != nil {
		c.guarding.Close()
		<-c.unguard
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	// Its pid can't have been given out again within this moment. One that has
	// ended by now stays the zero Process: there is nothing to signal.
	c.main, err = identify(cmd.Process.Pid)
	go func() {
		defer close(c.exited)
		cmd.Wait() // how it ended is of no interest: it is killed on purpose here
	}()
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), c.kill(context.Background()))
	}
	return c, nil
}

func (c *child) startGuard() error {
	// os.Pipe's ends close on exec: of all processes only this one keeps the
	// writing end, so its death is the end of the guard's input.
	input, hold, err := os.Pipe()
	if err != nil {
		return err
	}
	defer input.Close()
	c.guard = exec.Command("/bin/sh", "-c", guardScript)
	c.guard.Stdin = input
	c.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.guard.Start(); err != nil {
		hold.Close()
		return err
	}
	c.guarding = hold
	go func() {
		defer close(c.unguard)
		c.guard.Wait()
	}()
	return nil
}

// running reports whether the server has not ended.
func (c *child) running() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

// kill ends the group with SIGKILL and returns when it is gone. It is what must
// follow every launch, and does nothing the second time.
func (c *child) kill(ctx context.Context) error {
	if c == nil {
		return nil
	}
	c.guarding.Close()
	// The guard kills the group. If somebody killed the guard, what was started
	// is still a child, and the server is known by its birth.
	select {
	case <-c.unguard:
	case <-ctx.Done():
		return fmt.Errorf("kill %s: %w", c.name, context.Cause(ctx))
	}
	if c.running() {
		c.started.Process.Kill()
	}
	c.main.signal(unix.SIGKILL)
	select {
	case <-c.exited:
	case <-ctx.Done():
		return fmt.Errorf("kill %s: %w", c.name, context.Cause(ctx))
	}
	if err := awaitGone(ctx, c.main); err != nil {
		return fmt.Errorf("kill %s: %w", c.name, err)
	}
	return nil
}

// terminate asks the server to end and returns when it has; ctx bounds only the
// asking: after it the server is killed. The error is that of the kill.
func (c *child) terminate(ctx context.Context) error {
	if c == nil {
		return nil
	}
	c.main.signal(unix.SIGTERM)
	c.main.signal(unix.SIGCONT) // a stopped process would not see the SIGTERM
	select {
	case <-c.exited:
	case <-ctx.Done():
	}
	return c.kill(context.WithoutCancel(ctx))
}

// suspend stops the server's process and returns when it stands still.
func (c *child) suspend(ctx context.Context) error {
	if !c.running() {
		return fmt.Errorf("suspend %s: %w", c.name, os.ErrProcessDone)
	}
	if err := c.main.signal(unix.SIGSTOP); err != nil {
		return fmt.Errorf("suspend %s: %w", c.name, err)
	}
	if err := await(ctx, func() bool { return c.main.stopped() || !c.main.Alive() }); err != nil {
		return fmt.Errorf("suspend %s: %w", c.name, err)
	}
	if !c.main.Alive() {
		return fmt.Errorf("suspend %s: %w", c.name, os.ErrProcessDone)
	}
	return nil
}

func (c *child) resume() error {
	if !c.running() {
		return fmt.Errorf("resume %s: %w", c.name, os.ErrProcessDone)
	}
	if err := c.main.signal(unix.SIGCONT); err != nil {
		return fmt.Errorf("resume %s: %w", c.name, err)
	}
	return nil
}
