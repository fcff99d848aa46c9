package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
)

// A Record is what a scenario has seen: all that its judgement rests on.
type Record struct {
	Settings event.Settings
	Events   []event.Event    // of everybody, in the order of their arrival
	Ledger   map[Subject]int  // how often the provider accepted what
	Refused  map[Subject]int  // and refused
	Records  map[Subject]Seen // in Redis, in the end
	AtCrash  map[Subject]Seen // and while the worker was dead
	Ready    map[string]int   // messages in each queue when the workers were gone, or gone
	Parked   []ParkedMessage  // in the dead letters
	Order    []Subject        // what the provider accepted, one after the other
	Elapsed  time.Duration    // since the stage was begun

	Passes PassRecord // of the second chapter
}

// gone is the number of messages in a queue that is not there.
const gone = -1

// A Subject is one notification on one channel.
type Subject struct{ ID, Channel string }

func subject(n notify.Notification, c notify.Channel) Subject { return Subject{n.ID, string(c)} }

// Seen is a record of Redis as it was looked at. The zero Seen was not looked at.
type Seen struct {
	State State
	TTL   time.Duration // less than 0: for ever
}

// ParkedMessage is one that was found among the dead letters.
type ParkedMessage struct {
	ID, Queue, Reason string
	Body              []byte
	Attempts          int
	Last              string // what the last attempt said
}

// is says whether it is that notification's message. One that can't be read has
// no more than its message id.
func (p ParkedMessage) is(n notify.Notification) bool {
	m, err := notify.Decode(p.Body)
	return err == nil && m.ID == n.ID || err != nil && p.ID == n.ID
}

func (p ParkedMessage) why() string { return p.Reason + ", " + quantity(p.Attempts, "attempts") }

// record ends the play and takes in all that the judgement rests on. The workers
// are gone before anything is counted, and so is the provider: a call that it was
// still about to answer could have been accepted after the ledger was read.
func (s *stage) record(ctx context.Context) (*Record, error) {
	s.stopWorkers()
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	if err := s.listening.Close(ctx); err != nil {
		return nil, err
	}
	r := &Record{
		Settings: s.Settings, AtCrash: s.atCrash,
		Ledger: map[Subject]int{}, Refused: map[Subject]int{}, Records: map[Subject]Seen{}, Ready: map[string]int{},
	}
	for _, c := range s.topology.Channels {
		if err := s.recordChannel(ctx, r, c); err != nil {
			return nil, err
		}
	}
	for _, call := range s.provider.Calls() {
		if call.Kind != event.Refused && call.Kind != event.Deduplicated {
			r.Order = append(r.Order, Subject{call.ID, string(call.Channel)})
		}
	}
	for _, take := range s.also {
		if err := take(ctx, r); err != nil {
			return nil, err
		}
	}
	r.Events, r.Elapsed = s.history.All(), s.elapsed()
	return r, nil
}

func (s *stage) recordChannel(ctx context.Context, r *Record, c notify.Channel) error {
	for _, n := range slices.Concat(s.cast().all, s.beside) {
		subject := Subject{n.ID, string(c)}
		r.Ledger[subject] = s.provider.Accepted(n.ID, c)
		r.Refused[subject] = s.provider.Refused(n.ID, c)
		seen, err := s.look(ctx, n, c)
		if err != nil {
			return err
		}
		r.Records[subject] = seen
	}
	queues := []string{s.topology.Work(c), s.topology.DeadLetters(c)}
	for _, delay := range s.topology.Delays {
		queues = append(queues, s.topology.Retry(c, delay))
	}
	for _, q := range queues {
		n, err := s.settled(ctx, q)
		if err != nil {
			return err
		}
		r.Ready[s.Namespace.Bare(q)] = n
	}
	// Last: what was looked at is given back, which takes the broker a moment.
	return s.recordParked(ctx, r, c)
}

// most is how many dead letters are looked at.
const most = 1000

func (s *stage) recordParked(ctx context.Context, r *Record, c notify.Channel) error {
	if r.Ready[s.Namespace.Bare(s.topology.DeadLetters(c))] == gone {
		return nil
	}
	found, err := s.conn.Look(ctx, s.topology.DeadLetters(c), most)
	if err != nil {
		return err
	}
	for _, p := range found {
		r.Parked = append(r.Parked, ParkedMessage{
			ID: p.ID, Queue: s.Namespace.Bare(s.topology.DeadLetters(c)), Reason: p.Reason, Body: p.Body, Attempts: p.Attempts, Last: p.Last,
		})
	}
	return nil
}

// look reads the record of a notification.
func (s *stage) look(ctx context.Context, n notify.Notification, c notify.Channel) (Seen, error) {
	r, ttl, ok, err := idem.Look(ctx, s.redis, s.Namespace, n, c)
	if err != nil {
		return Seen{}, err
	}
	if !ok {
		return Seen{State: NoRecord}, nil
	}
	return Seen{State: State(r.State), TTL: ttl}, nil
}

// between is how often the broker is asked for something that it does not tell.
const between = 10 * time.Millisecond

// waiting is how many messages lie where they could still be sent from.
func (r *Record) waiting() int {
	n := 0
	for queue, ready := range r.Ready {
		if strings.HasPrefix(queue, "notify.") {
			n += max(0, ready)
		}
	}
	return n
}

// handedOver says whether a worker was handed anything from the n-th event on.
func (r *Record) handedOver(n int) bool {
	return slices.ContainsFunc(r.Events[n:], func(e event.Event) bool { return e.Kind == event.Received })
}

// settled returns how many messages a queue holds when nobody consumes it any
// more, or gone. A worker that has ended is a consumer for a moment longer, and
// what it had in hand is in no count before the broker has taken it back.
func (s *stage) settled(ctx context.Context, queue string) (int, error) {
	return s.awaitQueue(ctx, queue, "is still consumed", func(_, consumers int) bool { return consumers == 0 })
}

// consumed waits until a queue has so many consumers left, and returns how many
// messages wait in it then, or gone.
func (s *stage) consumed(ctx context.Context, queue string, by int) (int, error) {
	return s.awaitQueue(ctx, queue, fmt.Sprintf("was never consumed by %d", by), func(_, consumers int) bool { return consumers == by })
}

// awaitReady waits until a queue has so many messages to hand over.
func (s *stage) awaitReady(ctx context.Context, queue string, want int) error {
	_, err := s.awaitQueue(ctx, queue, fmt.Sprintf("never had %d to hand over", want), func(ready, _ int) bool { return ready == want })
	return err
}

// awaitQueue asks for a queue's messages until they, and its consumers, are as they
// should be, and returns how many there are then, or gone.
func (s *stage) awaitQueue(ctx context.Context, queue, otherwise string, good func(ready, consumers int) bool) (int, error) {
	again := time.NewTicker(between)
	defer again.Stop()
	for {
		n, consumers, ok, err := s.conn.Ready(ctx, queue)
		switch {
		case err != nil:
			return 0, err
		case !ok:
			return gone, nil
		case good(n, consumers):
			return n, nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return 0, never{s.Namespace.Bare(queue) + " " + otherwise, "", context.Cause(ctx)}
		}
	}
}
