package scenario

import (
	"context"
	"errors"
	"strings"

	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
)

// What everybody says comes together here, in one order: that of the history is
// that in which it is passed on.

// sink takes what the workers say. A crash is looked into at once: no worker is
// started again before this returns, so what is found is what the dead one left.
func (s *stage) sink(e event.Event) {
	// A worker can be quicker than the confirm of what it has received. It was
	// queued first, and so the story has it.
	if queued, ok := s.beingQueued(Subject{e.ID, e.Channel}); ok {
		<-queued
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*idem.Timeout)
	defer cancel()
	if n, ok := s.named(e.ID); ok && e.Kind == event.Crash {
		if seen, err := s.look(ctx, n, notify.Channel(e.Channel)); err == nil {
			s.noteAtCrash(Subject{e.ID, e.Channel}, seen)
		}
	}
	s.emit(e)
	if e.Kind == event.Crash && s.onCrash != nil {
		if err := s.onCrash(ctx); err != nil {
			s.giveUp(err)
		}
	}
	if e.Kind == event.GaveUp {
		s.giveUp(never{what: e.Owner + " was given up", hint: s.lastLog(), err: errors.New(e.Exit)})
	}
}

// emit records an event and passes it on.
func (s *stage) emit(e event.Event) {
	e.Detail = e.Detail || s.hidden(e)
	s.telling.Lock()
	defer s.telling.Unlock()
	s.history.Add(e)
	s.Emit(e)
}

func (s *stage) emitDetail(e event.Event) {
	e.Detail = true
	s.emit(e)
}

func (s *stage) beingQueued(subject Subject) (chan struct{}, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.queuing[subject]
	return c, ok
}

// queue says that a subject is being published, until the channel is closed.
func (s *stage) queue(subject Subject) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{})
	s.queuing[subject] = c
	return c
}

// hidden says whether text shows an event with -v only. Of a notification that only
// shows that the worker works, it shows no more than that; the story begins when
// something is published, and ends before its workers do.
func (s *stage) hidden(e event.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if only, quiet := s.quiet[e.ID]; quiet && e.Source != source {
		return e.Kind != only
	}
	switch e.Kind {
	case event.Ready:
		return len(s.queuing) == 0 || e.Group != "" // that it has joined says more
	case event.Draining:
		return s.over
	}
	return e.Kind == event.Exited && e.Exit != "killed"
}

func (s *stage) named(id string) (notify.Notification, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.names[id]
	return n, ok
}

func (s *stage) noteAtCrash(subject Subject, seen Seen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.atCrash[subject] = seen
}

// lastLog returns the last line that a worker wrote and that was no event, "" if
// none did. Lines that are indented go on with the one before.
func (s *stage) lastLog() string {
	last := ""
	for _, e := range s.history.All() {
		if e.Kind == event.Log && strings.TrimLeft(e.Line, " \t") == e.Line && e.Line != "" {
			last = e.Line
		}
	}
	return last
}
