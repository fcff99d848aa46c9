package event

import (
	"context"
	"fmt"
	"sync"
)

// History is a growing list of events that many may add to and wait on. The
// zero History is empty and ready.
type History struct {
	mu     sync.Mutex
	events []Event
	grown  chan struct{} // closed and replaced when an event is added
}

// Add appends e and wakes everyone who waits.
func (h *History) Add(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	if h.grown != nil {
		close(h.grown)
		h.grown = nil
	}
}

// All returns a copy of what has happened so far, in the order of arrival.
func (h *History) All() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Event(nil), h.events...)
}

// Len returns the number of events so far: a place from which to await.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.events)
}

// Await returns the first event that match accepts, past or future. Its error
// says that ctx ended first and what the last event was.
func (h *History) Await(ctx context.Context, match func(Event) bool) (Event, error) {
	return h.AwaitFrom(ctx, 0, match)
}

// AwaitFrom is [History.Await] for the events from the n-th on (see
// [History.Len]).
func (h *History) AwaitFrom(ctx context.Context, n int, match func(Event) bool) (Event, error) {
	for {
		events, grown := h.from(n)
		for _, e := range events {
			if match(e) {
				return e, nil
			}
		}
		n += len(events)
		select {
		case <-grown:
		case <-ctx.Done():
			return Event{}, fmt.Errorf("await event: %w (last: %s)", context.Cause(ctx), h.last())
		}
	}
}

// from returns the events from the n-th on and a channel that is closed when
// there are more.
func (h *History) from(n int) ([]Event, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.grown == nil {
		h.grown = make(chan struct{})
	}
	if n >= len(h.events) {
		return nil, h.grown
	}
	return h.events[n:len(h.events):len(h.events)], h.grown
}

func (h *History) last() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.events) == 0 {
		return "none"
	}
	e := h.events[len(h.events)-1]
	return fmt.Sprintf("%s %s %s", e.Source, e.Kind, e.ID)
}
