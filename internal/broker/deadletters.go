package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/notify"
)

// ErrTurn says that somebody else is at these dead letters.
var ErrTurn = errors.New("somebody else is at it")

// A ReplayError says that the broker did not confirm a replay. The message stays
// among the dead letters; if its fate is [Unknown] it may be in the work queue, too.
type ReplayError struct {
	ID, Queue string // the work queue
	Fate      Fate
	Err       error
}

func (e *ReplayError) Error() string {
	return fmt.Sprintf("replay %s to %s: %v: %v", e.ID, e.Queue, e.Fate, e.Err)
}

func (e *ReplayError) Unwrap() error { return e.Err }

// DeadLetters is the dead letters of one channel, for whoever has the turn: those
// who look, replay or purge take turns, since each holds all of them in hand for a
// while.
type DeadLetters struct {
	// Dial makes a connection to publish replays on. The turn's own would not do:
	// the broker reads nothing more of one that publishes under an alarm, neither
	// its acks nor its end, so the turn would be taken for as long as that lasts.
	Dial func(context.Context) (*Conn, error)

	conn    *Conn
	names   Names
	channel notify.Channel
	turn    *amqp.Channel
}

const (
	patience  = 5 * time.Second        // for a turn
	answering = 4 * time.Second        // for each thing asked of the broker
	pollEvery = 100 * time.Millisecond // the broker tells nobody when a turn is free
)

// DeadLetters takes the turn at a channel's dead letters: an exclusive queue, which
// goes with this connection however it ends. It waits up to five seconds, then the
// error is [ErrTurn]. To the broker all that one connection does is one's own: each
// turn needs a connection of its own. After another error this one may have the
// turn all the same, and is to be closed.
func (c *Conn) DeadLetters(ctx context.Context, names Names, channel notify.Channel) (*DeadLetters, error) {
	name := names.DeadLetters(channel)
	for late := time.Now().Add(patience); ; {
		ch, err := asked(ctx, c, func() (*amqp.Channel, error) { return takeTurn(c, name+".turn") })
		var e *amqp.Error
		switch {
		case err == nil:
			return &DeadLetters{conn: c, names: names, channel: channel, turn: ch}, nil
		case !errors.As(err, &e) || e.Code != amqp.ResourceLocked:
			return nil, fmt.Errorf("take a turn at %s: %w", name, err)
		case time.Now().After(late):
			return nil, fmt.Errorf("take a turn at %s: %w", name, ErrTurn)
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return nil, fmt.Errorf("take a turn at %s: %w", name, context.Cause(ctx))
		}
	}
}

// asked is [within], and for no longer than an answer may take.
func asked[T any](ctx context.Context, c *Conn, do func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answering, fmt.Errorf("no answer in %v", answering))
	defer cancel()
	return within(ctx, c, do)
}

func takeTurn(c *Conn, queue string) (*amqp.Channel, error) {
	ch, err := c.amqp.Channel()
	if err != nil {
		return nil, fmt.Errorf("open channel: %w", err)
	}
	_, err = ch.QueueDeclare(queue,
		false, // durable
		true,  // auto-delete
		true,  // exclusive: nobody else can even see it, and it goes with us
		false, // no-wait
		nil)
	if err != nil {
		ch.Close()
		return nil, err
	}
	return ch, nil
}

// Close gives the turn to the next.
func (d *DeadLetters) Close() error {
	_, err := asked(context.Background(), d.conn, func() (struct{}, error) {
		_, err := d.turn.QueueDelete(d.names.DeadLetters(d.channel)+".turn", false, false, false)
		return struct{}{}, errors.Join(err, d.turn.Close())
	})
	return err
}

// A Choice is what is to become of a dead letter.
type Choice int

const (
	Leave  Choice = iota // where it is
	Replay               // back to the work queue, with fresh attempts
	Drop                 // for good
)

// Each calls choose for every message that was there at the start, oldest first,
// and does with it what it says; choose's error ends it, after what was chosen
// before is done. done, if not nil, hears of each that is taken out. What is left
// stays in its order, untouched: to look is to leave all.
//
// A replayed message is published, confirmed and not returned before it leaves, so
// a crash leaves it in both places and never in none; some dozens are on their way
// at once. One that is not confirmed ends it with a [ReplayError]. What was begun is
// finished although ctx has ended.
func (d *DeadLetters) Each(ctx context.Context, choose func(DeadLetter) (Choice, error), done func(DeadLetter)) error {
	queue := d.names.DeadLetters(d.channel)
	all, err := d.settled(ctx, queue)
	if err != nil || all == 0 {
		return err
	}
	h, err := d.takeAll(ctx, queue, all)
	if err != nil {
		return err
	}
	h.done = done
	err = h.each(ctx, all, choose)
	for len(h.flights) > 0 {
		if late := h.land(); err == nil {
			err = late
		}
	}
	if h.replays != nil {
		if err != nil {
			h.replays.cut() // a broker that blocks it would not hear the farewell
		}
		h.replays.Close()
	}
	return errors.Join(err, h.giveBack(context.WithoutCancel(ctx)))
}

func (h *hand) each(ctx context.Context, all int, choose func(DeadLetter) (Choice, error)) error {
	for i := range all {
		m, err := h.next(ctx)
		if err != nil {
			return fmt.Errorf("look into %s: after %d of %d: %w", h.queue, i, all, err)
		}
		choice, err := choose(deadLetter(m))
		switch {
		case err != nil:
		case choice == Replay:
			err = h.replay(ctx, m)
		case choice == Drop:
			err = h.takeOut(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settled returns how many dead letters there are, once nobody has some in hand: a
// predecessor's come back a moment after its turn ends, above all if it was killed,
// and until then they are neither counted nor in their order. Somebody who takes
// them without a turn is waited for no longer than for an answer.
func (d *DeadLetters) settled(ctx context.Context, queue string) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answering, fmt.Errorf("no answer in %v", answering))
	defer cancel()
	for began := time.Now(); ; {
		ready, holders, _, err := d.conn.Ready(ctx, queue)
		if err != nil || holders == 0 || time.Since(began) > answering/2 {
			return ready, err
		}
		select {
		case <-time.After(pollEvery / 10):
		case <-ctx.Done():
		}
	}
}
