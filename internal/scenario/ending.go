package scenario

import (
	"context"
	"fmt"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// awaitEnd waits until no copy of a notification is on its way any more and nobody
// has one in hand, a worker that was stopped with it included.
func (s *stage) awaitEnd(ctx context.Context, id string, c notify.Channel) error {
	way := newJourney(s.Settings.Ack == "early")
	_, err := s.history.Await(ctx, func(e event.Event) bool {
		return about(e, Subject{id, string(c)}) && way.over(e)
	})
	if err != nil {
		return never{fmt.Sprintf("%s did not come to its end on %s", id, c), s.reason(id, c), context.Cause(ctx)}
	}
	return nil
}

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

// over takes in the next event about the message, and says whether that was the
// end.
func (j *journey) over(e event.Event) bool {
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
	case event.Dropped, event.Crash:
		delete(j.hands, e.Source)
	}
	return j.begun && j.copies <= 0 && len(j.hands) == 0
}

// take marks what the stopped ones hold as somebody else's.
func (j *journey) take() {
	for _, h := range j.hands {
		h.taken = h.taken || h.stopped
	}
}
