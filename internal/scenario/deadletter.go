package scenario

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

func deadLetter() Scenario {
	return Scenario{
		Name: "dead-letter", Mode: "bad-token", Lesson: 6, Outcome: Parked, Any: true, Next: "crash-send",
		Tags:  []string{"lesson", "parked"},
		Title: "retries, back-off, and the dead letters",
		Shows: "refused three times, then parked; nothing waits behind it",
		Help: `User 999's device token is no good: the provider refuses it each time. The worker puts
a copy into a retry queue, whose time to live is the back-off (0.5 s, then 1 s), and
acks. After the third refusal the copy goes to push.dlq. The waits are in the broker:
nothing behind is blocked, and a crash forgets none of it. Works under any settings.

What to look for
  RETRY 1/3 (0.5s backoff), RETRY 2/3 (1s backoff), DEAD-LETTER -> push.dlq. The one
  right behind it is SENT before the first retry comes back. push.dlq holds the message
  as it was published, byte for byte, and no record of it is left.`,
		ByHand: `  notifylab supervise push=1                                                # one terminal
  notifylab produce --mode bad-token && notifylab produce --channel push    # another
  # RETRY 1/3, SENT for the one behind it, RETRY 2/3, DEAD-LETTER -> push.dlq`,
		channels: []notify.Channel{notify.Push},
		play:     playDeadLetter,
		judge:    judgeDeadLetter,
	}
}

func playDeadLetter(ctx context.Context, s *stage) error {
	if _, err := s.worker(ctx, notify.Push); err != nil {
		return err
	}
	victim, behind := s.notification(1, "999", s.text()), s.behind(2, "7")
	if err := s.publish(ctx, post{victim, notify.Push, ""}, post{behind, notify.Push, ""}); err != nil {
		return err
	}
	if err := s.awaitSettled(ctx, behind.ID, notify.Push); err != nil {
		return err
	}
	return s.await(ctx, event.DeadLetter, victim.ID, notify.Push) // its ack is made before the worker ends
}

func judgeDeadLetter(c cast, r *Record) Verdict {
	victim, behind := Subject{c.victim.ID, string(notify.Push)}, Subject{c.behind.ID, string(notify.Push)}
	again := func(e event.Event) bool { return e.Kind == event.Received && about(e, victim) && e.Attempt == 2 }
	sent := func(e event.Event) bool { return e.Kind == event.Sent && about(e, behind) }
	findings := []Finding{
		r.refusals(c.victim.ID, victim, 3),
		r.accepted(c.victim.ID, victim, 0),
		r.accepted("the one behind it", behind, 1),
		r.order("the one behind it, and the retry", sent, again, c.behind.ID, c.victim.ID),
		r.said("worker lines", victim, event.Retry, event.Retry, event.DeadLetter),
		r.times("worker lines", victim, event.Sent, 0),
		r.backoffs(victim, 500, 1000),
		r.ready("push.dlq", 1),
		r.parkedAsPublished(c.victim),
		r.parkedAfter(c.victim, 3),
		r.record(victim, NoRecord, 0),
		r.ready("notify.push", 0),
		r.ready("notify.push.retry.500ms", 0),
		r.ready("notify.push.retry.1s", 0),
		r.elsewhere("push.dlq", "notify.push", "notify.push.retry.500ms", "notify.push.retry.1s"),
	}
	v := judged(r, findings, []Fate{r.fate(c.victim, notify.Push), r.fate(c.behind, notify.Push)}).about(c.victim.ID)
	v.Want, v.Why = Parked, "three attempts, then kept for somebody to look at; it blocked nothing and left no record"
	return v
}

// backoffs checks the waits that were announced, in milliseconds.
func (r *Record) backoffs(s Subject, want ...int64) Finding {
	var got []int64
	for _, e := range r.Events {
		if e.Kind == event.Retry && e.ID == s.ID && e.Channel == s.Channel {
			got = append(got, e.BackoffMS)
		}
	}
	return Finding{What: "waits between attempts", Want: milliseconds(want), Got: milliseconds(got), OK: fmt.Sprint(got) == fmt.Sprint(want), IDs: []string{s.ID}}
}

func milliseconds(ms []int64) string {
	text := ""
	for i, m := range ms {
		if i > 0 {
			text += ", "
		}
		text += strconv.FormatFloat(float64(m)/1000, 'g', -1, 64) + "s"
	}
	if text == "" {
		return "none"
	}
	return text
}

// parkedAsPublished checks that the dead letters hold the message, byte for byte.
func (r *Record) parkedAsPublished(n notify.Notification) Finding {
	f := Finding{What: "push.dlq, the body", Want: "as it was published", Got: "not there", IDs: []string{n.ID}}
	for _, p := range r.Parked {
		if p.Queue != "push.dlq" {
			continue
		}
		f.Got = "changed"
		if bytes.Equal(p.Body, notify.Encode(n)) {
			f.Got, f.OK = f.Want, true
			return f
		}
	}
	return f
}

// parkedAfter checks what is said of it there: refused, and how often.
func (r *Record) parkedAfter(n notify.Notification, attempts int) Finding {
	f := Finding{What: "push.dlq, why", Want: "refused, " + quantity(attempts, "attempts"), Got: "not there", IDs: []string{n.ID}}
	for _, p := range r.Parked {
		if p.Queue == "push.dlq" && bytes.Equal(p.Body, notify.Encode(n)) {
			f.Got = p.why()
		}
	}
	f.OK = f.Got == f.Want
	return f
}
