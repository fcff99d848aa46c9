package passes

import (
	"context"
	"fmt"
	"os"
	"time"

	"notifylab/internal/event"
)

// A Caller does all that has to be done about an expired pass by itself, in one call:
// what a producer is without a queue.
type Caller struct {
	Register *Register
	Effects  []Effect // in their order; it has to know every one of them
	Name     string   // the source of its events
	Emit     func(event.Event)
}

// Expire fetches the pass, and does one thing after the other. The first that fails is
// the call's error, and what stands behind it is not done.
func (c *Caller) Expire(ctx context.Context, x Expired) error {
	user, ok, err := c.Register.Fetch(ctx, x.Pass)
	if err == nil && !ok {
		err = fmt.Errorf("there is no pass %s", x.Pass)
	}
	if err != nil {
		c.say(x, event.Event{Kind: event.Failed, Reason: err.Error()})
		return err
	}
	x.User = user
	c.say(x, event.Event{Kind: event.Fetched})
	for i, effect := range c.Effects {
		e, err := effect.Do(ctx, x)
		if err != nil {
			c.say(x, event.Event{Kind: event.Failed, Reason: err.Error(), Messages: len(c.Effects) - i - 1})
			return fmt.Errorf("expire %s: %w", x.Pass, err)
		}
		c.say(x, e)
	}
	return nil
}

func (c *Caller) say(x Expired, e event.Event) {
	e.Time, e.Source, e.PID = time.Now(), c.Name, os.Getpid()
	e.ID, e.User, e.Pass = x.ID, x.User, x.Pass
	c.Emit(e)
}
