package scenario

import (
	"context"
	"slices"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

func liveTakeover() Scenario {
	return Scenario{
		Name: "live-takeover", Outcome: Once, Next: "drain",
		Tags:     []string{"duplicate", "slow"},
		Title:    "the connection is cut in a slow send, and the worker lives",
		Shows:    "a cut connection: the same worker again, and sent once",
		Settings: event.Settings{Idempotency: true, ClaimLease: true},
		Help: `Nobody dies here. The provider is slow, and in the middle of the send the worker's
connection to RabbitMQ is cut (by a proxy between them). The broker takes the message
back, the worker connects again, and the same process is handed the same message while
its own first send is still on its way. Redelivered does not mean that anybody died.

The record says pending, and its owner lives: it is the worker itself. So the second
delivery waits, unsettled, until the first send is through and the record says done. The
first can't ack any more, since its session is over; the second one does.

What to look for
  CLAIMED, DISCONNECTED, READY, RECEIVED (redelivered), LEASE BUSY, then SENT and DONE by the
  first, DUPLICATE DROPPED by the second, and no RESTART: one process, one acceptance. With
  idempotency off the provider accepts both.`,
		ByHand: `  docker compose up -d --wait rabbitmq redis                        # servers whose rabbitmqctl is at hand
  notifylab provider --delay 4s                                     # one terminal
  notifylab worker push --provider-url http://127.0.0.1:3200 --idempotency on --claim-lease on   # another
  notifylab produce --channel push                                  # a third; then, within 4 s:
  docker compose exec rabbitmq rabbitmqctl close_all_connections cut
  # DISCONNECTED, READY, RECEIVED (redelivered), LEASE BUSY, SENT, DONE, DUPLICATE DROPPED`,
		channels: []notify.Channel{notify.Push},
		play:     playTakeover,
		judge:    judgeTakeover,
	}
}

func playTakeover(ctx context.Context, s *stage) error {
	cable, err := layCable(s.AMQPURL)
	if err != nil {
		return err
	}
	s.after = append(s.after, cable.Close)
	s.Env = append(slices.Clip(s.Env), "AMQP_URL="+cable.url)
	if _, err := s.worker(ctx, notify.Push, patient()...); err != nil {
		return err
	}
	victim, behind := s.notification(1, "7", s.text()), s.behind(2, "8")
	release, err := s.intoSend(ctx, victim, behind)
	if err != nil {
		return err
	}
	s.note(victim, notify.Push, cable.cut(), "the worker's connections to RabbitMQ are cut, in the send")
	calls := sends(s.Settings, 2)
	if calls == 2 {
		err = s.awaitHeld(ctx, calls, victim.ID, notify.Push)
	} else {
		err = s.await(ctx, met(s.Settings), victim.ID, notify.Push)
	}
	if err != nil {
		return err
	}
	release()
	if err := s.awaitCalls(ctx, calls, victim.ID, notify.Push); err != nil {
		return err
	}
	// The first handling's end, and the second's.
	if err := s.await(ctx, event.Dropped, victim.ID, notify.Push); err != nil {
		return err
	}
	if err := s.await(ctx, event.Acked, victim.ID, notify.Push); err != nil {
		return err
	}
	return s.awaitSettled(ctx, behind.ID, notify.Push)
}

func judgeTakeover(c cast, r *Record) Verdict {
	victim, behind := subject(c.victim, notify.Push), subject(c.behind, notify.Push)
	calls := sends(c.settings, 2)
	accepted := accepts(c.settings, calls)
	lines := []event.Kind{event.Received, event.Received, event.Sent, event.Sent}
	why := "the same worker sent it twice: nothing remembered that it was at it"
	switch {
	case leased(c.settings):
		lines = []event.Kind{event.Claimed, event.LeaseBusy, event.Sent, event.Done, event.DuplicateDropped}
		why = "the second delivery met the first one's lease, waited, and was dropped when it was done"
	case c.settings.Idempotency:
		lines = []event.Kind{event.Claimed, event.DuplicateDropped, event.Sent}
		why = "the second delivery met the first one's claim and was dropped"
	case c.settings.ProviderKey:
		why = "the same worker sent it twice, and the provider knew the second by its key"
	}
	findings := []Finding{
		r.accepted(c.victim.ID, victim, accepted),
		r.accepted("the one behind it", behind, 1),
		r.noted("cut in the send", victim, 2, "connections"),
		r.livedOn(victim),
		r.said("worker lines", victim, lines...),
		r.times("worker lines", victim, event.Sent, calls),
		r.times("worker lines", victim, event.Acked, 1),
		r.record(victim, remembered(c.settings), retention),
		r.ready("notify.push", 0),
		r.elsewhere("notify.push"),
	}
	v := judged(r, findings, []Fate{r.fate(c.victim, notify.Push), r.fate(c.behind, notify.Push)}).about(c.victim.ID)
	v.Want, v.Why = outcome(accepted, false, false), why
	v.Bug, v.Fixed = v.Want != Once, v.Want == Once
	return v
}

// livedOn checks that whoever received a subject lost its connection after that, got
// it again, and is the same process.
func (r *Record) livedOn(s Subject) Finding {
	f := Finding{What: "the worker", Want: "received, cut off, redelivered to the same process", Got: "nothing", IDs: []string{s.ID}}
	received := func(e event.Event) bool { return e.Kind == event.Received && about(e, s) }
	first, rest := next(r.Events, received)
	cut, rest := next(rest, func(e event.Event) bool { return e.Kind == event.Disconnect && e.PID == first.PID })
	again, _ := next(rest, func(e event.Event) bool { return received(e) && e.Redelivered })
	switch {
	case first.Kind == "":
		return f
	case cut.Kind == "":
		f.Got = "received"
	case again.Kind == "":
		f.Got = "received, cut off"
	case again.PID != first.PID:
		f.Got = "received, cut off, redelivered to another process"
	default:
		f.Got = f.Want
	}
	f.OK = f.Got == f.Want
	return f
}
