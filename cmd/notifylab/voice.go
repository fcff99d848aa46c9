package main

import (
	"sync"

	"notifylab/internal/event"
	"notifylab/internal/lab"
)

// A voice is how a worker says its events: on standard output and in the journal. What
// is to be a line of JSON there and here is made one once.
type voice struct {
	out     *printer     // nil: nothing is printed
	journal *lab.Journal // nil: there is none
	// last is taken by the line of a crash, and never given back: it is by itself, after
	// all that was said before, and nothing follows it.
	last sync.RWMutex
}

// say says one event, and returns when its line is written. It may be called from any
// goroutine.
func (v *voice) say(e event.Event) {
	if e.Kind == event.Crash {
		v.last.Lock()
	} else {
		v.last.RLock()
		defer v.last.RUnlock()
	}
	switch {
	case v.journal != nil:
		var room [512]byte
		line := event.Append(room[:0], e)
		if v.out != nil {
			v.out.encoded(e, line)
		}
		v.journal.AddLine(line)
	case v.out != nil:
		v.out.event(e)
	}
}
