package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/notify"
)

// Fate is what became of a published message.
type Fate int

const (
	// Confirmed: the broker has it, on disk.
	Confirmed Fate = iota
	// Returned: there is no such queue. It is nowhere.
	Returned
	// Nacked: the broker would not take responsibility for it.
	Nacked
	// Unknown: no answer came. It may be there or not.
	Unknown
)

func (f Fate) String() string { return [...]string{"confirmed", "returned", "nacked", "unknown"}[f] }

// A Receipt is one message in flight.
type Receipt struct {
	p        *Publisher
	serial   string
	exchange string
	to       string
	message  amqp.Publishing

	written chan struct{} // closed when the library has taken it, or would not
	confirm *amqp.DeferredConfirmation
	err     error
}

// Wait returns what became of the message. If ctx ends first that is unknown,
// and the error says why; the message stays in flight, and takes its place in
// the window, until the broker answers or the publisher ends.
func (r *Receipt) Wait(ctx context.Context) (Fate, error) {
	p := r.p
	if !r.answered(ctx) {
		p.late <- r // has room for all of the window
		if err := p.Err(); err != nil {
			return Unknown, err
		}
		return Unknown, p.held(errors.New("no confirm in time"))
	}
	defer func() { <-p.window }()
	ret, returned := p.tookReturn(r.serial)
	switch {
	case returned:
		return Returned, fmt.Errorf("%d %s", ret.ReplyCode, ret.ReplyText)
	case r.err == nil && r.confirm.Acked():
		return Confirmed, nil
	case p.ch.IsClosed(): // the library resolves all that is open as not acked
		if p.await(ctx, p.over) {
			return Unknown, p.Err()
		}
		return Unknown, ended(nil)
	case r.err != nil:
		return Unknown, r.err
	}
	return Nacked, notify.ErrNacked
}

// Answered says whether what became of the message is known, so that Wait would
// return at once.
func (r *Receipt) Answered() bool {
	return closed(r.written) && (r.err != nil || closed(r.confirm.Done()))
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// answered waits until the library has resolved the confirm, or would not take
// the message. It returns false if ctx or the publisher ends first.
func (r *Receipt) answered(ctx context.Context) bool {
	return r.p.await(ctx, r.written) && (r.err != nil || r.p.await(ctx, r.confirm.Done()))
}

// held waits for the answer, and returns nil when it is there or ctx has ended, of
// which [Receipt.Wait] tells; or, before that, why the broker holds publishers
// back.
func (r *Receipt) held(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	blocking, _ := r.p.changes()
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-blocking:
			cancel()
		case <-ctx.Done():
		}
	})
	defer watch.Wait()
	defer cancel()
	if r.answered(ctx) {
		return nil
	}
	return r.p.isBlocked()
}
