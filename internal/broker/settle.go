package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"notifylab/internal/notify"
)

// Ack settles d. The ack is written soon, together with others. After the
// session's end it does nothing.
func (s *Session) Ack(d *notify.Delivery) { s.acks.settle(d.Tag) }

// AckNow settles d and returns nil when the broker's end of the channel has the
// ack: it was written, and a round trip was made after it. (An ack that was only
// in the socket was lost in 3 of 25 kills under load; measured.) That is as much
// as AMQP can tell: a quorum queue that is 33 acks behind keeps further ones
// waiting there, and forgets them if the connection is cut (measured). After an
// error nobody knows: [notify.ErrSessionOver], or the cause of ctx's end.
func (s *Session) AckNow(ctx context.Context, d *notify.Delivery) error {
	s.acks.settle(d.Tag)
	return s.Check(ctx)
}

func (s *Session) writeAck(k ack) error {
	var err error
	if k.requeue {
		err = s.ch.Nack(k.tag, k.multiple, true)
	} else {
		err = s.ch.Ack(k.tag, k.multiple)
	}
	if err != nil {
		return fmt.Errorf("ack: %w", err)
	}
	return nil
}

// Check makes a round trip on the channel of the deliveries, behind the acks of all
// that was settled, and so finds out whether the session died while nobody looked: a
// stopped process sees the end of its connection only when it reads. All who ask at the
// same time share it, so their number costs no time. nil: it lived a moment ago.
// [notify.ErrSessionOver]: it is over, perhaps because the broker did not answer
// in time. If ctx ends first the error is the cause of that, and the session
// goes on.
func (s *Session) Check(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, s.publishTimeout)
	defer cancel()
	err := s.acks.flush(limited, s.over)
	if err == nil {
		err = s.roundTrip(limited)
	}
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		s.end(fmt.Errorf("round trip: no answer within %v", s.publishTimeout))
		return notify.ErrSessionOver
	}
	return err
}

// roundTrip waits for one that begins after the call.
func (s *Session) roundTrip(ctx context.Context) error {
	round := s.trips.Join()
	select {
	case <-round.Done():
	case <-s.over:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.Err() != nil {
		return notify.ErrSessionOver
	}
	return nil
}

// trip makes one round trip. An error of it ends the session, and the session's end it.
func (s *Session) trip(time.Time) (struct{}, error) {
	s.calling.Lock()
	defer s.calling.Unlock()
	err := s.ch.Qos(s.prefetch, 0, false)
	if err != nil {
		s.end(fmt.Errorf("round trip: %w", err))
	}
	return struct{}{}, err
}

// Cancel ends the handing over: Deliveries is closed, and what nobody took from
// it is given back by Close. Deliveries in hand can still be settled.
//
// The broker is not told before Close, and fills up the places of those that are
// acked until then. For a cancelled consumer's acks there is no way to make sure
// of them: of 501 that were written after the cancel a quorum queue under load
// took 33 before the orderly end of the connection, and forgot the rest
// (measured). A cancel that comes after them makes it take them all first.
func (s *Session) Cancel(context.Context) error {
	s.cancelOnce.Do(func() { close(s.cancelled) })
	if s.Err() != nil {
		return notify.ErrSessionOver
	}
	return nil
}

// Close ends the session: the last acks are written, the consumer is cancelled,
// everything still unsettled is given back to the queue at once, the connections
// are closed. That takes until ctx ends and two seconds at most. It returns how
// many deliveries were given back: 0 of a session that was over, whose deliveries
// the broker has already. Nothing can be settled after it.
func (s *Session) Close(ctx context.Context) int {
	_ = s.Cancel(ctx)
	back := s.giveBack(ctx)
	s.end(errors.New("closed"))
	s.running.Wait() // a round trip that is under way ends with its connection
	return back
}

func (s *Session) giveBack(ctx context.Context) int {
	s.acks.close()
	if s.acks.flush(ctx, s.over) != nil {
		return 0
	}
	if s.cancelConsumer(ctx) != nil {
		return 0
	}
	<-s.pumped // by the library, when it has given all that arrived before the answer
	n := s.acks.giveBack()
	if n > 0 && s.acks.flush(ctx, s.over) != nil {
		return 0
	}
	_ = s.Check(ctx) // it has left the socket
	return n
}

// cancelConsumer returns when the broker has heard that no more is taken. The end of
// ctx before that ends the session.
func (s *Session) cancelConsumer(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { s.end(errors.New("closed")) })()
	s.calling.Lock()
	defer s.calling.Unlock()
	return s.ch.Cancel(consumerTag, false)
}
