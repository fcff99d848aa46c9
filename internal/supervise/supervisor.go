package supervise

import (
	"context"
	"errors"
	"sync"

	"notifylab/internal/event"
)

// Source is the source of the events that a supervisor itself emits. They are
// about the child that their Owner names:
//
//	restart   a life ended (Exit); the next begins in WaitMS; the row's Restarts
//	gave_up   a life ended (Exit) after Restarts in a row; it was the last
//	exited    the end of one that was told to stop, or that has no second life
//	note      something odd about it (Reason)
//
// Each process's story ends with exactly one gave_up or exited.
const Source = "supervisor"

var (
	// ErrGaveUp says that a child died more often than its policy allows or in
	// a way that no restart can heal.
	ErrGaveUp = errors.New("gave up")
	// ErrStopped says that the supervisor was told to stop and starts nothing.
	ErrStopped = errors.New("supervisor is stopped")
	// ErrNotRunning says that there is no such process now.
	ErrNotRunning = errors.New("not running")
)

// Config is what a supervisor needs to know.
type Config struct {
	Policy Policy

	// Sink takes every event, one at a time. While it works, children that
	// write have to wait, so it may look things up in the supervisor but must
	// not stop or await anything there.
	Sink func(event.Event)

	// Settled says whether an event proves that a life got something done,
	// which ends a row of restarts. Nil: none does.
	Settled func(event.Event) bool

	// Hopeless says whether a child that ended by itself with this status
	// (0 to 255) would only end so again. Nil: none is.
	Hopeless func(exit int) bool
}

// A Supervisor runs children. It is for one use: once told to stop it starts
// nothing any more. Its methods may be called from any goroutine.
type Supervisor struct {
	config Config

	emitting sync.Mutex // held around the sink, so that events come one at a time

	mu        sync.Mutex // guards what follows and what Process says it guards
	stopped   bool
	processes []*Process // in the order of their starts; ended ones are dropped by Start
	ready     int        // READYs seen: a later one has the better claim to a name
	gaveUp    []error
}

// New returns a supervisor without children. It owns nothing until
// [Supervisor.Start].
func New(c Config) *Supervisor {
	if c.Policy == (Policy{}) {
		c.Policy = DefaultPolicy()
	}
	if c.Settled == nil {
		c.Settled = func(event.Event) bool { return false }
	}
	if c.Hopeless == nil {
		c.Hopeless = func(int) bool { return false }
	}
	return &Supervisor{config: c}
}

// Run starts children, waits until ctx ends or no process is left, stops what
// still runs, and returns when nothing does. Its error is that of a child
// that could not be started at all, which stops the others, or says which
// children were given up (ErrGaveUp). The end of ctx is not an error.
func (s *Supervisor) Run(ctx context.Context, children ...Child) error {
	for _, c := range children {
		if _, err := s.Start(c); err != nil {
			return errors.Join(err, s.Stop())
		}
	}
	for p := s.anyone(); p != nil; p = s.anyone() {
		select {
		case <-p.done:
		case <-ctx.Done():
			return s.Stop()
		}
	}
	return s.Stop()
}

// Start starts c and returns its process, which is restarted and stopped by
// this supervisor from then on. After an error nothing runs.
func (s *Supervisor) Start(c Child) (*Process, error) {
	p, err := s.register(c)
	if err != nil {
		return nil, err
	}
	first, err := p.begin()
	if err != nil {
		close(p.done)
		return nil, err
	}
	go p.run(first)
	return p, nil
}

// register makes a place for c before anything is forked, so that a Stop
// from now on waits for whatever comes of it.
func (s *Supervisor) register(c Child) (*Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, ErrStopped
	}
	alive := s.processes[:0]
	for _, p := range s.processes {
		if !p.ended() {
			alive = append(alive, p)
		}
	}
	clear(s.processes[len(alive):])
	p := &Process{
		s:     s,
		child: c,
		name:  c.Name,
		stop:  make(chan struct{}),
		kill:  make(chan struct{}),
		done:  make(chan struct{}),
	}
	s.processes = append(alive, p)
	return p, nil
}

// Stop stops every process as [Process.Stop] does, all at the same time, and
// returns when nothing is left, which takes Grace and WaitDelay at most. Its
// error says which children were given up, ever.
func (s *Supervisor) Stop() error {
	processes := s.close()
	for _, p := range processes {
		p.tellStop()
	}
	for _, p := range processes {
		<-p.done
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.gaveUp...)
}

// Kill kills every group at once, those that are being stopped included, and
// returns without waiting: Run and Stop return soon after.
func (s *Supervisor) Kill() {
	for _, p := range s.close() {
		p.Kill()
	}
}

// close lets nothing more start and returns what was started.
func (s *Supervisor) close() []*Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	return append([]*Process(nil), s.processes...)
}

// Find returns the process of that name that has not ended for good. Of
// several the one whose READY came last has it, since a place that a dead
// worker left can be taken by another process's next life.
func (s *Supervisor) Find(name string) (*Process, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *Process
	for _, p := range s.processes {
		if p.name == name && !p.ended() && (found == nil || p.named > found.named) {
			found = p
		}
	}
	return found, found != nil
}

// anyone returns a process that has not ended for good, or nil.
func (s *Supervisor) anyone() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		if !p.ended() {
			return p
		}
	}
	return nil
}

func (s *Supervisor) emit(e event.Event) {
	s.emitting.Lock()
	defer s.emitting.Unlock()
	s.config.Sink(e)
}
