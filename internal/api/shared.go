package api

import (
	"context"
	"sync"
	"time"
)

// A shared is something that many use at once, made when it is asked for and there
// is none that lives. All who ask meanwhile wait for one attempt and get what it
// comes to; each waits no longer than its own context lets it.
type shared[T any] struct {
	limit time.Duration // for an attempt
	make  func(context.Context) (T, error)
	lives func(T) bool
	close func(T)

	mu      sync.Mutex
	value   T
	there   bool
	making  *making[T] // nil: nobody is at it
	running sync.WaitGroup
}

type making[T any] struct {
	done  chan struct{}
	value T
	err   error
}

func (s *shared[T]) get(ctx context.Context) (T, error) {
	v, m := s.join()
	if m == nil {
		return v, nil
	}
	select {
	case <-m.done:
		return m.value, m.err
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
}

// join returns what lives, or the attempt to wait for.
func (s *shared[T]) join() (v T, m *making[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.there && s.lives(s.value) {
		return s.value, nil
	}
	if s.making == nil {
		s.making = &making[T]{done: make(chan struct{})}
		m := s.making
		s.running.Go(func() { s.attempt(m) })
	}
	return v, s.making
}

// attempt is nobody's request: who asked first may have gone.
func (s *shared[T]) attempt(m *making[T]) {
	ctx, cancel := context.WithTimeout(context.Background(), s.limit)
	defer cancel()
	s.drop()
	m.value, m.err = s.make(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.making = nil
	if m.err == nil {
		s.value, s.there = m.value, true
	}
	close(m.done)
}

func (s *shared[T]) drop() {
	s.mu.Lock()
	v, there := s.value, s.there
	s.there = false
	s.mu.Unlock()
	if there {
		s.close(v)
	}
}

// end waits for an attempt on its way and closes what is there. Nobody may ask any
// more.
func (s *shared[T]) end() {
	s.running.Wait()
	s.drop()
}
