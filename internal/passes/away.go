package passes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"notifylab/internal/event"
)

// Waits between tries to reach a server that is away.
const (
	firstWait = 50 * time.Millisecond
	longWait  = time.Second
)

// insist joins or beats until Redis answers. Only ctx and [ErrPartitions] end it.
func (m *Member) insist(ctx context.Context, how func(context.Context, Identity) (State, error)) (s State, err error) {
	err = m.again(ctx, "Redis", func() (err error) {
		s, err = m.touch(ctx, how)
		return err
	})
	return s, err
}

// reconnect replaces a connection that has ended with why. Meanwhile nothing is heard
// of the member: should that last, others read what it can't. It returns false only
// if ctx ended first.
func (m *Member) reconnect(ctx context.Context, why error) bool {
	m.conn.Close()
	m.say(event.Event{Kind: event.Disconnect, Reason: fmt.Sprintf("the reading has ended, from the cursors on it goes on: %v", why)})
	if time.Since(m.opened) >= longWait {
		m.wait = 0
	}
	m.wait = min(max(2*m.wait, firstWait), longWait) // the next one may end as soon as this one
	return pause(ctx, m.wait) && m.again(ctx, "RabbitMQ", func() error {
		conn, err := m.Open(ctx)
		if err == nil {
			m.conn, m.opened = conn, time.Now()
		}
		return err
	}) == nil
}

// again calls do until it succeeds or ctx ends, and says when a server went away and
// when it is back.
func (m *Member) again(ctx context.Context, server string, do func() error) error {
	said := false
	for wait := firstWait; ; wait = min(2*wait, longWait) {
		err := do()
		switch {
		case err == nil && said:
			m.say(event.Event{Kind: event.Reconnected, Reason: server + " answers again"})
			return nil
		case err == nil, errors.Is(err, ErrPartitions), ctx.Err() != nil:
			return err
		case !said:
			said = true
			m.say(event.Event{Kind: event.Disconnect, Reason: err.Error()})
		}
		if !pause(ctx, wait) {
			return context.Cause(ctx)
		}
	}
}

// pause waits for d; false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
