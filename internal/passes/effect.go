package passes

import (
	"context"
	"errors"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// An Effect is one thing that is done about an expired pass.
type Effect struct {
	// Channel is where a person is told of it; empty: nobody is. Telling is what must
	// not be done twice. Anything else here comes to the same however often it is done.
	Channel notify.Channel
	// Do does it, and returns the fact to be told. After an error it may be done or not.
	Do func(context.Context, Expired) (event.Event, error)
}

// Telling sends what follows from the event to the provider, in one attempt that takes
// no longer than limit.
func Telling(sender notify.Sender, c notify.Channel, limit time.Duration) Effect {
	return Effect{Channel: c, Do: func(ctx context.Context, e Expired) (event.Event, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		result := sender.Send(ctx, notify.Attempt{Channel: c, Notification: e.Notification()})
		if result.Answer != notify.Accepted {
			return event.Event{}, errors.New(result.Reason)
		}
		return event.Event{Kind: event.Sent, Channel: string(c), Text: e.Text}, nil
	}}
}

// Deletion deletes the pass.
func Deletion(r *Register) Effect {
	return Effect{Do: func(ctx context.Context, e Expired) (event.Event, error) {
		there, err := r.Delete(ctx, e.Pass)
		if !there {
			return event.Event{Kind: event.AlreadyDeleted}, err
		}
		return event.Event{Kind: event.Deleted}, err
	}}
}

// Handler returns a [Config.Handle] of a group's member that does some things, one after
// the other, and says each. What stands behind one that fails is not done, and the whole is tried
// again.
func Handler(effects []Effect, group string, say func(event.Event)) func(context.Context, Record) error {
	return func(ctx context.Context, r Record) error {
		for _, effect := range effects {
			e, err := effect.Do(ctx, r.Expired)
			if err != nil {
				return err
			}
			e.ID, e.User, e.Pass, e.Group = r.ID, r.User, r.Pass, group
			e.Position = &event.Position{Partition: r.Partition, Offset: r.Offset}
			say(e)
		}
		return nil
	}
}
