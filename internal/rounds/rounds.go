// Package rounds lets all who have the same question at the same time share one
// answer: a read of the settings, a look through the dead letters, a round trip to the
// broker.
package rounds

import (
	"context"
	"sync"
	"time"
)

// Rounds ask one question for all who have it. Who comes while one round is on its way
// shares the next: nobody gets an answer that is older than the question, and however
// many ask there are two rounds at most.
type Rounds[T any] struct {
	ask func(since time.Time) (T, error)

	mu      sync.Mutex
	busy    bool
	next    *Round[T] // joined by all who come while one is on its way
	running sync.WaitGroup
}

// A Round is one question, asked for several.
type Round[T any] struct {
	since  time.Time
	done   chan struct{}
	answer T
	err    error
}

// New returns the rounds of a question, which has to end by itself. since is when
// the first of those came who share the answer.
func New[T any](ask func(since time.Time) (T, error)) *Rounds[T] {
	return &Rounds[T]{ask: ask}
}

// Join returns the next round, which begins after the call.
func (r *Rounds[T]) Join() *Round[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &Round[T]{since: time.Now(), done: make(chan struct{})}
	}
	joined := r.next
	if !r.busy {
		r.busy = true
		r.running.Go(r.askForAll)
	}
	return joined
}

// askForAll asks for as long as somebody waits.
func (r *Rounds[T]) askForAll() {
	for round := r.take(); round != nil; round = r.take() {
		round.answer, round.err = r.ask(round.since)
		close(round.done)
	}
}

func (r *Rounds[T]) take() *Round[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	round := r.next
	r.next = nil
	r.busy = round != nil
	return round
}

// Drain returns when no round is on its way. Nobody may join meanwhile.
func (r *Rounds[T]) Drain() { r.running.Wait() }

// Done is closed when the answer is there.
func (r *Round[T]) Done() <-chan struct{} { return r.done }

// Wait returns the answer, or why ctx ended before it came.
func (r *Round[T]) Wait(ctx context.Context) (T, error) {
	select {
	case <-r.done: // also if ctx has ended since
		return r.answer, r.err
	default:
	}
	select {
	case <-r.done:
		return r.answer, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
