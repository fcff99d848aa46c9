package broker

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A Parked message is one found among the dead letters.
type Parked struct {
	ID       string // its message id
	Body     []byte
	Reason   string // why: ours, or the broker's if it parked the message itself
	Attempts int    // sends tried before
	First    string // what the first attempt said
	Last     string // what the last attempt said
	Worker   string // who parked it; empty: the broker
}

// Look returns up to limit messages of a queue, oldest first, and leaves them
// there in their order: none is acked, and closing the channel gives all back.
// Of a queue with a delivery limit a look counts as a delivery, which is why dead
// letters have none.
func (c *Conn) Look(ctx context.Context, queue string, limit int) ([]Parked, error) {
	found, err := onChannel(ctx, c, func(ch *amqp.Channel) ([]Parked, error) {
		var found []Parked
		for len(found) < limit {
			d, ok, err := ch.Get(queue, false)
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			found = append(found, parked(d))
		}
		return found, nil
	})
	if err != nil {
		return nil, fmt.Errorf("look into %s: %w", queue, err)
	}
	return found, nil
}

func parked(d amqp.Delivery) Parked {
	p := Parked{ID: d.MessageId, Body: d.Body}
	p.Reason, _ = d.Headers[headerReason].(string)
	p.First, _ = d.Headers[headerFirst].(string)
	p.Last, _ = d.Headers[headerLast].(string)
	p.Worker, _ = d.Headers[headerWorker].(string)
	p.Attempts, _ = integer(d.Headers[headerAttempts])
	if broker, ok := d.Headers["x-first-death-reason"].(string); ok && p.Reason == "" {
		p.Reason = broker
	}
	return p
}
