package scenario

import (
	"context"

	"notifylab/internal/event"
	"notifylab/internal/passes"
)

func idempotentHandler() Scenario {
	return Scenario{
		Name: "idempotent-handler", Outcome: Lost, Next: "destructive-read",
		Tags:  []string{"queue", "kill"},
		Title: "EVT #91, and again: a handler that may run twice",
		Shows: "delete, remember, push: repeatable but for lesson 4's gap",
		Help: `The handler of the explainer: it deletes the pass, which comes to the same however often
it is done; it inserts the event into seen_events, here a record in Redis; and only if
that was new it sends the push.

Three runs, each with one crash and one redelivery. In the first it dies when all is
done, before the ack: one delete, one push, and the second time nothing. In the second it
dies between the record and the push: the redelivery finds the record and is dropped.
One delete, and no push: the explainer's handler has the gap of lesson 4. In the third
the record is a lease, as in lesson 5, and the push is sent.

What to look for
  ALREADY DELETED and DUPLICATE DROPPED in the first run; CLAIMED, CRASH, DUPLICATE
  DROPPED and no SENT in the second; CLAIM RECOVERED and SENT in the third.`,
		ByHand: `  notifylab reaction delete-pass notify --records claimed    # one terminal; start it again when it has died
  notifylab expire --crash-at before-ack                     # another: one delete, one push
  notifylab expire --crash-at after-claim                    # one delete, no push
  # and with --records lease: CLAIM RECOVERED, SENT`,
		play:  onPasses(playIdempotentHandler),
		judge: judgeIdempotentHandler,
	}
}

// A handlerRun is where the handler dies, and what its records are.
type handlerRun struct {
	name    string
	point   passes.Point
	records string
}

func handlerRuns() []handlerRun {
	return []handlerRun{
		{"handler", passes.BeforeAck, "claimed"},
		{"handler", passes.AfterClaim, "claimed"},
		{"handler-lease", passes.AfterClaim, "lease"},
	}
}

func playIdempotentHandler(ctx context.Context, s *passStage) error {
	for _, run := range handlerRuns() {
		p, err := s.reaction(ctx, run.name, "handler", reactDelete, reactNotify, "--records", run.records)
		if err != nil {
			return err
		}
		event91 := armed(run.point, s.expire(1))
		if err := s.enqueue(ctx, "handler", event91...); err != nil {
			return err
		}
		if err := s.gone(ctx, p); err != nil {
			return err
		}
		if p, err = s.reaction(ctx, run.name, "handler", reactDelete, reactNotify, "--records", run.records); err != nil {
			return err
		}
		if err := s.acked(ctx, event91...); err != nil {
			return err
		}
		if err := p.Stop(ctx); err != nil {
			return err
		}
	}
	return nil
}

func judgeIdempotentHandler(_ cast, r *Record) Verdict {
	p := &r.Passes
	done, gap, leased := p.ids(1, 1), p.ids(2, 2), p.ids(3, 3)
	all := p.ids(1, 3)
	return judgedPasses(r, all,
		r.eachTold("dies before the ack", done, told, 1),
		r.eachTold("dies between record and push", gap, told, 0),
		r.eachTold("the same with a lease", leased, told, 1),
		r.handedAgain("handed over again", all, true),
		r.eachSaid("the pass deleted", "", event.Deleted, all, 1),
		r.eachSaid("deleted again, nothing changed", "", event.AlreadyDeleted, all, 1),
		r.passesLeft("in the end", all, nil),
		r.eachSaid("dropped, it was remembered", "", event.DuplicateDropped, p.ids(1, 2), 1),
		r.eachSaid("recovered from the dead one", "", event.ClaimRecovered, leased, 1),
		r.eachSaid("crashes", "", event.Crash, all, 1),
		r.killed("handler", 2),
		r.killed("handler-lease", 1),
		r.ready("passes.handler", 0),
	).as(Lost, "remembered, not yet sent, and the redelivery was dropped; a lease closes the gap")
}
