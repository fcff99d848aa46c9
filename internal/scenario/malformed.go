package scenario

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/notify"
)

func malformed() Scenario {
	return Scenario{
		Name: "malformed", Outcome: Parked, Any: true, Next: "replay",
		Tags:  []string{"parked"},
		Title: "bodies that can't be read",
		Shows: "bodies that can't be read are parked, the next are sent",
		Help: `Five messages hold no notification: one is cut off, one is empty, one is no JSON, one
has no user, and one has a user that would break the record's key. Trying again would
not mend them, and to drop them would hide a broken producer. So each is parked at once,
without a send and without a record: nothing is claimed for what has no name. The worker
lives on, and the notification behind them is sent. Works under any settings.

What to look for
  DEAD-LETTER -> push.dlq: malformed, with what is wrong, five times, no RETRY and no
  RESTART. The dead letters hold the true bytes: notifylab dlq show push.`,
		ByHand: `  notifylab supervise push=1                                        # one terminal
  notifylab produce --channel push --body '{"id":"1","user":"7"'    # another
  # RECEIVED, DEAD-LETTER -> push.dlq: malformed
  notifylab dlq show push --reason malformed`,
		channels: []notify.Channel{notify.Push},
		play:     playMalformed,
		judge:    judgeMalformed,
	}
}

// badBodies returns what is published in place of some notifications, in their order.
func badBodies(of []notify.Notification) [][]byte {
	whole := notify.Encode(of[0])
	return [][]byte{
		whole[:len(whole)-4],
		{},
		[]byte("hello"),
		fmt.Appendf(nil, `{"id":%q,"text":"for nobody"}`, of[3].ID),
		fmt.Appendf(nil, `{"id":%q,"user":"a:b","text":"a colon"}`, of[4].ID),
	}
}

// unreadable returns those of the cast that can't be read: all but the one behind.
func (c cast) unreadable() []notify.Notification {
	return append([]notify.Notification{c.victim}, c.all[2:]...)
}

func playMalformed(ctx context.Context, s *stage) error {
	if _, err := s.worker(ctx, notify.Push); err != nil {
		return err
	}
	s.notification(1, "7", s.text())
	behind := s.behind(2, "8")
	for n := range 4 {
		s.notification(3+n, "7", "unreadable")
	}
	bad := s.cast().unreadable()
	if err := s.publishBad(ctx, bad); err != nil {
		return err
	}
	if err := s.publish(ctx, post{behind, notify.Push, ""}); err != nil {
		return err
	}
	if err := s.awaitTimes(ctx, len(bad), event.DeadLetter, "", notify.Push); err != nil {
		return err
	}
	return s.awaitSettled(ctx, behind.ID, notify.Push)
}

// publishBad publishes what can't be read in place of some notifications. Workers do
// not know then whose it is.
func (s *stage) publishBad(ctx context.Context, all []notify.Notification) error {
	defer close(s.queue(Subject{"", string(notify.Push)}))
	for i, body := range badBodies(all) {
		m := broker.Message{Queue: s.topology.Work(notify.Push), ID: all[i].ID, Body: body}
		if err := s.startMessage(ctx, post{all[i], notify.Push, ""}, m)(); err != nil {
			return err
		}
	}
	return nil
}

func judgeMalformed(c cast, r *Record) Verdict {
	bad, nobody := c.unreadable(), Subject{"", string(notify.Push)}
	findings := []Finding{
		r.eachAccepted("what can't be read", bad, notify.Push, 0),
		r.accepted("the one behind it", subject(c.behind, notify.Push), 1),
		number("worker lines", len(bad), r.count(nobody, event.DeadLetter), words(event.DeadLetter), ids(bad)...),
		number("worker lines", 0, r.count(nobody, event.Claimed)+r.count(nobody, event.Retry), words(event.Claimed, event.Retry), ids(bad)...),
		r.restarts(notify.Push, "killed", 0, c.victim.ID),
		r.record(subject(c.victim, notify.Push), NoRecord, 0),
		r.ready("push.dlq", len(bad)),
		r.kept(notify.Push, bad, badBodies(bad), "malformed, 0 attempts"),
		r.ready("notify.push", 0),
		r.elsewhere("push.dlq", "notify.push"),
	}
	fates := []Fate{r.fate(c.behind, notify.Push)}
	for _, n := range bad {
		fates = append(fates, r.fate(n, notify.Push))
	}
	v := judged(r, findings, fates).about(c.victim.ID)
	v.Want, v.Why = Parked, "what can't be read is kept as it was, for somebody to look at, and holds up nobody"
	return v
}

func ids(all []notify.Notification) (ids []string) {
	for _, n := range all {
		ids = append(ids, n.ID)
	}
	return ids
}

// kept checks that a channel's dead letters hold messages with these bodies, byte for
// byte, parked for that reason.
func (r *Record) kept(c notify.Channel, all []notify.Notification, bodies [][]byte, why string) Finding {
	body := map[string][]byte{}
	for i, n := range all {
		body[n.ID] = bodies[i]
	}
	queue := string(c) + ".dlq"
	return each(queue, "as published ("+why+")", all, func(n notify.Notification) bool {
		return slices.ContainsFunc(r.Parked, func(p ParkedMessage) bool {
			return p.Queue == queue && p.ID == n.ID && bytes.Equal(p.Body, body[n.ID]) && p.why() == why
		})
	})
}
