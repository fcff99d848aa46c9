package api

import (
	"context"
	"sync"
)

// A lookout looks among a channel's dead letters for all who ask. Who comes while
// one look is on its way shares the next with others: nobody is told what was true
// before the question, and however many ask there are two looks at most.
type lookout struct {
	look func(context.Context) (map[string]bool, error)

	mu      sync.Mutex
	busy    bool
	next    *sight // joined by all who come while a look is on its way
	running sync.WaitGroup
}

// A sight is one look.
type sight struct {
	done chan struct{}
	ids  map[string]bool
	err  error
}

// sees says whether an id is among the dead letters, when the look is over.
func (s *sight) sees(ctx context.Context, id string) (bool, error) {
	select {
	case <-s.done:
	default:
		select {
		case <-s.done:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	return s.ids[id], s.err
}

// join returns the next look.
func (l *lookout) join() *sight {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = &sight{done: make(chan struct{})}
	}
	s := l.next
	if !l.busy {
		l.busy = true
		l.running.Go(l.lookForAll)
	}
	return s
}

// lookForAll looks for as long as somebody waits. It ends by itself, since a look
// does.
func (l *lookout) lookForAll() {
	for s := l.take(); s != nil; s = l.take() {
		s.ids, s.err = l.look(context.Background())
		close(s.done)
	}
}

func (l *lookout) take() *sight {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.next
	l.next = nil
	l.busy = s != nil
	return s
}
