package scenario

import (
	"context"
	"fmt"
	"slices"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// awaitEnds waits until no copy of some notifications is on its way any more and nobody
// has one in hand, a worker that was stopped with it included.
func (s *stage) awaitEnds(ctx context.Context, c notify.Channel, all ...notify.Notification) error {
	return s.awaitJourneys(ctx, c, all, (*journey).over)
}

// awaitAsleep waits until nobody has any in hand but who was stopped with it.
func (s *stage) awaitAsleep(ctx context.Context, c notify.Channel, all ...notify.Notification) error {
	return s.awaitJourneys(ctx, c, all, (*journey).asleep)
}

func (s *stage) awaitJourneys(ctx context.Context, c notify.Channel, all []notify.Notification, there func(*journey) bool) error {
	ways := map[string]*journey{}
	for _, n := range all {
		ways[n.ID] = newJourney(s.Settings.Ack == "early")
	}
	onTheWay := func(n notify.Notification) bool { return !there(ways[n.ID]) }
	_, err := s.history.Await(ctx, func(e event.Event) bool {
		if e.Channel != string(c) {
			return false
		}
		if e.Kind == event.Crash || e.Kind == event.Stopped { // which is about one of them, and done to all
			for _, way := range ways {
				way.with(e)
			}
		}
		if way := ways[e.ID]; way != nil {
			way.next(e)
		}
		return !slices.ContainsFunc(all, onTheWay)
	})
	if err != nil {
		id := all[slices.IndexFunc(all, onTheWay)].ID
		end := never{fmt.Sprintf("%s did not come to its end on %s", id, c), s.reason(id, c), context.Cause(ctx)}
		if slices.ContainsFunc(all, func(n notify.Notification) bool { return onTheWay(n) && !ways[n.ID].withBroker() }) {
			return end
		}
		return vanished{end}
	}
	return nil
}

// vanished is the end of a wait for messages that nobody has in hand: the broker has
// them, or it has lost them, which its queues tell when the workers are gone.
type vanished struct{ error }

func (v vanished) Unwrap() error { return v.error }

// A journey counts what there is of one message, by what is said of it.
type journey struct {
	early  bool // the ack comes first
	begun  bool // else the provider was faster than the confirm
	copies int  // that the broker has, or has handed over
	hands  map[string]*hand
}

// A hand is a worker's work on one delivery.
type hand struct {
	stopped bool
	taken   bool // the broker has handed it to another since: an ack goes nowhere
	over    bool // but for being stopped
}

func newJourney(early bool) *journey { return &journey{early: early, hands: map[string]*hand{}} }

// over says whether what was said so far is the end.
func (j *journey) over() bool { return j.asleep() && len(j.hands) == 0 }

// asleep says whether it is but for those who were stopped.
func (j *journey) asleep() bool { return j.begun && j.copies <= 0 && j.idle() }

// withBroker says whether nobody has it in hand who could go on, and it is not settled.
func (j *journey) withBroker() bool { return j.begun && j.copies > 0 && j.idle() }

func (j *journey) idle() bool {
	for _, h := range j.hands {
		if !h.stopped {
			return false
		}
	}
	return true
}

// next takes in the next event about the message.
func (j *journey) next(e event.Event) {
	switch e.Kind {
	case event.Queued:
		j.begun = true
		j.copies++
	case event.Received:
		if e.Redelivered {
			j.take()
		}
		j.hands[e.Source] = &hand{}
	case event.Acked:
		if h := j.hands[e.Source]; h == nil || !h.taken {
			j.copies--
		}
		if !j.early {
			delete(j.hands, e.Source)
		}
	case event.Retry:
		j.copies++
		if j.early {
			delete(j.hands, e.Source)
		}
	case event.Sent, event.DeadLetter:
		if j.early {
			delete(j.hands, e.Source)
		}
	case event.Stopped:
		if j.hands[e.Source] == nil {
			j.hands[e.Source] = &hand{over: true}
		}
		j.hands[e.Source].stopped = true
	case event.Woke:
		if h := j.hands[e.Source]; h != nil && h.over {
			delete(j.hands, e.Source)
		}
	case event.Dropped:
		delete(j.hands, e.Source)
	}
}

// with takes in what is done to a worker, whatever message it is about.
func (j *journey) with(e event.Event) {
	h := j.hands[e.Source]
	switch {
	case h == nil:
	case e.Kind == event.Crash:
		delete(j.hands, e.Source)
	default:
		h.stopped = true
	}
}

// take marks what the stopped ones hold as somebody else's.
func (j *journey) take() {
	for _, h := range j.hands {
		h.taken = h.taken || h.stopped
	}
}
