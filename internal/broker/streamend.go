package broker

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// most is how many entries a channel may have in hand.
const most = 65535

// End returns the offset of a stream's last entry: of all that was confirmed before
// the call, and perhaps of some that came since. ok is false if there is none. AMQP
// 0-9-1 has no way to ask, so End waits that long for a first entry: a broker that
// takes longer makes a stream look empty. If there is one the answer comes in
// milliseconds and is exact: the broker hands over all that there is before it answers
// to the cancel. (What it counts as the messages of a stream is up to five seconds old,
// and says 0 until then; measured on 3.10 and 4.0.)
func (c *Conn) End(ctx context.Context, stream string, wait time.Duration) (last int64, ok bool, err error) {
	end, err := onChannel(ctx, c, func(ch *amqp.Channel) (Entry, error) {
		end := Entry{Offset: -1}
		in, err := consumeStream(ch, Reading{stream, AtLast()}, most)
		if err != nil {
			return end, err
		}
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case d, ok := <-in:
			if !ok {
				return end, fmt.Errorf("read %s: consumer cancelled", stream)
			}
			end = entry(stream, d)
		case <-timer.C:
		case <-ctx.Done():
		}
		if err := ch.Cancel(stream, false); err != nil {
			return end, fmt.Errorf("cancel the reading of %s: %w", stream, err)
		}
		for d := range in { // the rest; closed by the cancel
			end = entry(stream, d)
		}
		return end, nil
	})
	if err != nil {
		return 0, false, fmt.Errorf("end of %s: %w", stream, err)
	}
	return end.Offset, end.Offset >= 0, nil
}

// ReadAll returns what is in a stream, from the oldest entry to the last one by
// [Conn.End] with that wait. It takes nothing out. It is for logs that fit into memory.
func (c *Conn) ReadAll(ctx context.Context, stream string, wait time.Duration) ([]Entry, error) {
	last, ok, err := c.End(ctx, stream, wait)
	if err != nil || !ok {
		return nil, err
	}
	r, err := c.Read(ctx, 1000, Reading{stream, AtFirst()})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var all []Entry
	for {
		select {
		case e, ok := <-r.Entries():
			if !ok {
				return nil, fmt.Errorf("read %s: %w", stream, r.Err())
			}
			all = append(all, e)
			if e.Offset >= last {
				return all, nil
			}
			if err := r.Ack(e); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("read %s: %w", stream, context.Cause(ctx))
		}
	}
}
