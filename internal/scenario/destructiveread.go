package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"notifylab/internal/event"
)

func destructiveRead() Scenario {
	return Scenario{
		Name: "destructive-read", Outcome: Lost, Next: "two-cursors",
		Tags:  []string{"queue"},
		Title: "reading takes it out: two reactions, one queue",
		Shows: "two reactions on a queue miss events; a queue each: none",
		Help: `An expired pass has two reactions: notify and delete-pass. First both consume one queue.
Reading is destructive: who gets an event acks it, and the other one never sees it. They
compete, as two workers of the same kind should, and each misses what the other got.
Then each has a queue of its own, bound to one exchange, which puts a copy into both.

What to look for
  In the first act each event is either SENT or its pass DELETED, never both. In the
  second both, for every event.`,
		ByHand: `  notifylab reaction notify --queue shared         # one terminal
  notifylab reaction delete-pass --queue shared    # another
  notifylab expire --count 10                      # a third: each event is handled once, by one of them
  # without --queue each has its own, and each gets all ten`,
		play:  onPasses(playDestructiveRead),
		judge: judgeDestructiveRead,
	}
}

const readEvents = 10 // of each act

func playDestructiveRead(ctx context.Context, s *passStage) error {
	if err := s.reactBoth(ctx, "shared", "shared"); err != nil {
		return err
	}
	// It would get the second act's events, too.
	if err := s.conn.Delete(ctx, s.queueOf("shared")); err != nil {
		return err
	}
	return s.reactBoth(ctx, reactNotify, reactDelete)
}

// reactBoth has both reactions take events from these queues, until each queue's copy
// of each event is acked.
func (s *passStage) reactBoth(ctx context.Context, notifies, deletes string) error {
	one, err := s.reaction(ctx, reactNotify, notifies, reactNotify)
	if err != nil {
		return err
	}
	other, err := s.reaction(ctx, reactDelete, deletes, reactDelete)
	if err != nil {
		return err
	}
	posts := s.expire(readEvents)
	if err := s.announce(ctx, posts...); err != nil {
		return err
	}
	left := readEvents
	if notifies != deletes {
		left *= 2
	}
	ids := idsOf(posts)
	_, err = s.hear(ctx, 0, "not every event was handled", func(e event.Event) bool {
		if e.Kind == event.Acked && slices.Contains(ids, e.ID) {
			left--
		}
		return left == 0
	})
	if err != nil {
		return err
	}
	return errors.Join(one.Stop(ctx), other.Stop(ctx))
}

func judgeDestructiveRead(_ cast, r *Record) Verdict {
	p := &r.Passes
	shared, own := p.ids(1, readEvents), p.ids(readEvents+1, 2*readEvents)
	findings := []Finding{
		r.missed("shared, notify", shared, func(id string) bool { return r.Ledger[Subject{id, told}] > 0 }),
		r.missed("shared, delete-pass", shared, r.passGone),
		eachTime("shared, each event", "handled", shared, 1, func(id string) int {
			n := r.Ledger[Subject{id, told}]
			if r.passGone(id) {
				n++
			}
			return n
		}),
		r.eachTold("own queues, notify", own, told, 1),
		r.eachSaid("own queues, delete-pass", reactDelete, event.Deleted, own, 1),
		r.passesLeft("own queues", own, nil),
		r.ready("passes.notify", 0),
		r.ready("passes.delete-pass", 0),
	}
	return judgedPasses(r, append(shared, own...), findings...).
		as(Lost, "taken out by the other reaction, which needed it for something else; with a queue each both saw all")
}

func (r *Record) passGone(id string) bool {
	_, there := r.Passes.Left[r.Passes.pass(id)]
	return !there
}

// missed checks that a reaction got some of these, and not all.
func (r *Record) missed(what string, ids []string, got func(id string) bool) Finding {
	n := 0
	for _, id := range ids {
		if got(id) {
			n++
		}
	}
	f := Finding{What: what, Want: fmt.Sprintf("some of %d, not all", len(ids)), Got: fmt.Sprintf("%d of %d", n, len(ids)), OK: n > 0 && n < len(ids)}
	if f.OK {
		f.Got = fmt.Sprintf("%d, missed %d", n, len(ids)-n)
	} else {
		f.IDs = ids
	}
	return f
}
