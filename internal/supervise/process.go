package supervise

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"notifylab/internal/event"
)

// A Child says what to run.
type Child struct {
	Name string   // what to call it until the source of its READY says better
	Argv []string // the program and its arguments
	Env  []string // its whole environment, NAME=value; nil: the supervisor's own
	Once bool     // one life only: however it ends, it is not restarted
}

// A Process is a child's place under a supervisor, through all its lives.
type Process struct {
	s     *Supervisor
	child Child

	stopping sync.Once
	killing  sync.Once
	stop     chan struct{} // closed: it was told to stop. The intent, before any signal
	kill     chan struct{} // closed: and at once
	done     chan struct{} // closed: it has ended for good

	// Guarded by s.mu.
	name     string
	named    int   // which READY gave it the name; 0: none did
	life     *life // nil when none is running
	restarts int
}

// Name returns the source of its last READY or, before one, its child's name.
func (p *Process) Name() string {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.name
}

// Pid returns the pid of the life that is running, 0 if none is.
func (p *Process) Pid() int {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.life == nil {
		return 0
	}
	return p.life.pid
}

// Restarts returns how often a restart was decided, whatever came of it.
func (p *Process) Restarts() int {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.restarts
}

// Signal sends sig to the process alone, not to its group, as somebody outside
// could. If it dies of that, it is restarted. ErrNotRunning: there is none
// now, but there may be another life soon.
func (p *Process) Signal(sig syscall.Signal) error {
	_, err := p.SignalLife(sig)
	return err
}

// SignalLife does what Signal does, and returns the pid of the life that had the
// signal: the next one has another.
func (p *Process) SignalLife(sig syscall.Signal) (pid int, err error) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	err = ErrNotRunning
	if p.life != nil {
		// Under the lock: once life is nil the pid may be somebody else's.
		pid = p.life.pid
		err = unix.Kill(pid, sig)
	}
	if err != nil {
		return 0, fmt.Errorf("signal %s: %w", p.name, err)
	}
	return pid, nil
}

// Stop tells it to stop (SIGTERM, the grace, SIGKILL) and waits until it has
// ended. If ctx ends first, Stop returns an error and the stop goes on.
func (p *Process) Stop(ctx context.Context) error {
	p.tellStop()
	return p.AwaitExit(ctx)
}

// Kill kills its group at once, for good, and does not wait.
func (p *Process) Kill() {
	p.killing.Do(func() { close(p.kill) })
	p.tellStop()
}

// AwaitExit waits until it has ended for good: stopped, given up, or its one
// life over. By then everything that it wrote is in the sink.
func (p *Process) AwaitExit(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("await exit of %s: %w", p.Name(), context.Cause(ctx))
	}
}

func (p *Process) tellStop() {
	p.stopping.Do(func() { close(p.stop) })
}

func (p *Process) told() bool  { return closed(p.stop) }
func (p *Process) ended() bool { return closed(p.done) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// run owns the process from its first life on: it alone starts, reaps and
// decides.
func (p *Process) run(first *life) {
	defer close(p.done)
	row := 0 // restarts in a row
	for end := p.attend(first); p.again(end, &row); {
		next, err := p.begin()
		if err != nil {
			end = ending{how: "not started", reason: err.Error(), status: -1}
			continue
		}
		end = p.attend(next)
	}
}

// again says what becomes of the process after end, emits it, and returns
// true when it is time for the next life.
func (p *Process) again(end ending, row *int) bool {
	if end.healthy {
		*row = 0
	}
	policy := p.s.config.Policy
	e := event.Event{Owner: p.Name(), Exit: end.how, Reason: end.reason}
	switch {
	case p.told() || p.child.Once:
		e.Kind = event.Exited
		p.say(e)
		return false
	case policy.exhausted(*row) || end.status >= 0 && p.s.config.Hopeless(end.status):
		e.Kind, e.Restarts = event.GaveUp, *row
		p.giveUp(e)
		p.say(e)
		return false
	}
	*row++
	wait := policy.wait(*row)
	e.Kind, e.Restarts, e.WaitMS = event.Restart, *row, wait.Milliseconds()
	p.countRestart()
	p.say(e)
	if p.pause(wait) {
		return true
	}
	// It was told to stop while nothing ran: its story still needs an end.
	p.say(event.Event{Kind: event.Exited, Owner: e.Owner, Exit: end.how})
	return false
}

// pause waits for d and returns false if the process was told to stop by then.
func (p *Process) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return !p.told() // both may be ready, and then select takes either
	case <-p.stop:
		return false
	}
}

func (p *Process) say(e event.Event) {
	e.Time, e.Source = time.Now(), Source
	p.s.emit(e)
}

func (p *Process) giveUp(e event.Event) {
	err := fmt.Errorf("%w %s after %d restarts (%s)", ErrGaveUp, e.Owner, e.Restarts, e.Exit)
	if e.Reason != "" {
		err = errors.Join(err, errors.New(e.Reason))
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.gaveUp = append(p.s.gaveUp, err)
}

func (p *Process) countRestart() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.restarts++
}

func (p *Process) setLife(l *life) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.life = l
}

// rename takes the name that a READY gave.
func (p *Process) rename(name string) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.ready++
	p.name, p.named = name, p.s.ready
}
