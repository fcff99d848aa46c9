package scenario

import (
	"context"
	"fmt"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/passes"
	"notifylab/internal/provider"
)

func ackTiming() Scenario {
	return Scenario{
		Name: "ack-timing", Outcome: Lost, Next: "competing",
		Tags:  []string{"queue", "kill"},
		Title: "same queue, the only variable is when it is acked",
		Shows: "ack on read: lost; after success: again; auto: all lost",
		Help: `Three events wait in a queue. The reaction notify takes the first, and is killed while
the provider has it in hand. Three times the same crash; only the ack differs.

  read   acked before the work: the broker has forgotten it. Lost
  late   acked when all is done: handed over again, so it may run twice. The usual way
  auto   the broker takes for acked what it has written: the first, and the two that
         waited in the process behind it. All lost

What to look for
  After each kill the events that are RECEIVED again. With --ack late the first one comes
  as (redelivered) and is SENT. The one behind them is SENT each time: the reaction could.`,
		ByHand: `  notifylab provider --delay 1m      # one terminal: so slow that there is time
  notifylab reaction notify --ack auto --send-timeout 2m --provider-url http://127.0.0.1:3200    # another; then read, late
  notifylab expire --count 3         # a third; then kill -9 the reaction
  notifylab queues                   # passes.notify holds: auto 0, read 2, late 3 more`,
		play:  onPasses(playAckTiming),
		judge: judgeAckTiming,
	}
}

// ackModes are the acts, in their order: each has so many events, and one behind them.
func ackModes() []passes.AckMode {
	return []passes.AckMode{passes.AckRead, passes.AckLate, passes.AckAuto}
}

const ackEvents = 3

func playAckTiming(ctx context.Context, s *passStage) error {
	for _, mode := range ackModes() {
		if err := s.crashAcked(ctx, mode); err != nil {
			return err
		}
	}
	return nil
}

func (s *passStage) crashAcked(ctx context.Context, mode passes.AckMode) error {
	name, queue := "ack-"+string(mode), "ack."+string(mode)
	posts := s.expire(ackEvents)
	victim := posts[0].ID
	s.provider.SetFaults(provider.Faults{Hang: []provider.Target{{ID: victim}}})
	p, err := s.reaction(ctx, name, queue, reactNotify, "--ack", string(mode))
	if err != nil {
		return err
	}
	if err := s.enqueue(ctx, queue, posts...); err != nil {
		return err
	}
	err = s.provider.Await(ctx, func(l *provider.Ledger) bool { return l.Held(victim, notify.Push) > 0 })
	if err != nil {
		return never{"the provider was never asked for " + victim, s.reason(victim, notify.Push), context.Cause(ctx)}
	}
	// What the process holds, and has acked or not, is no longer ready.
	ready := map[passes.AckMode]int{passes.AckRead: ackEvents - 2, passes.AckLate: ackEvents - 1, passes.AckAuto: 0}[mode]
	if mode == passes.AckAuto {
		err = s.emptied(ctx, queue)
	} else {
		err = s.waiting(ctx, queue, ready)
	}
	if err != nil {
		return err
	}
	s.tell(event.Event{ID: victim, Messages: ready, Reason: fmt.Sprintf("ack %s: the first is in its hands, passes.%s holds %d more. Now it is killed", mode, queue, ready)})
	if err := s.kill(ctx, p); err != nil {
		return err
	}
	s.provider.SetFaults(provider.Faults{})
	behind := s.expire(1)
	if err := s.enqueue(ctx, queue, behind...); err != nil {
		return err
	}
	if _, err := s.reaction(ctx, name, queue, reactNotify, "--ack", string(mode)); err != nil {
		return err
	}
	return s.acked(ctx, behind...)
}

// emptied waits until a queue has handed over all that was confirmed. The broker's count
// does not do for that: it says 0 for a moment before it has heard of a message.
func (s *passStage) emptied(ctx context.Context, queue string) error {
	again := time.NewTicker(between)
	defer again.Stop()
	for {
		found, err := s.conn.Look(ctx, s.queueOf(queue), 1)
		if err != nil || len(found) == 0 {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return never{"passes." + queue + " was never emptied", "", context.Cause(ctx)}
		}
	}
}

func judgeAckTiming(_ cast, r *Record) Verdict {
	p := &r.Passes
	var findings []Finding
	for i, mode := range ackModes() {
		from := i*(ackEvents+1) + 1
		victim, rest, behind := p.ids(from, from), p.ids(from+1, from+ackEvents-1), p.ids(from+ackEvents, from+ackEvents)
		wantVictim, wantRest := 0, 1
		switch mode {
		case passes.AckLate:
			wantVictim = 1
		case passes.AckAuto:
			wantRest = 0
		}
		act := "ack " + string(mode)
		findings = append(findings,
			r.eachTold(act+", in hand at the crash", victim, told, wantVictim),
			r.eachTold(act+", waiting behind it", rest, told, wantRest),
			r.eachTold(act+", published after it", behind, told, 1),
			r.handedAgain(act+", handed over again", victim, mode == passes.AckLate),
			r.killed("ack-"+string(mode), 1),
			r.ready("passes.ack."+string(mode), 0))
	}
	ids := p.ids(1, len(p.Published))
	return judgedPasses(r, ids, findings...).as(Lost, "acked before the work was done, on read or by itself, and the crash came in between; acked after it, it came again")
}

// handedAgain checks whether the broker handed these over again, and said so.
func (r *Record) handedAgain(what string, ids []string, want bool) Finding {
	n := 0
	if want {
		n = 1
	}
	return eachTime(what, "redelivered", ids, n, func(id string) int {
		return len(r.all(func(e event.Event) bool { return e.Kind == event.Received && e.ID == id && e.Redelivered }))
	})
}
