package scenario

import (
	"context"
	"fmt"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/worker"
)

const (
	innocents = 20 // behind the one that kills
	// deaths is how many a message causes that kills each time: the broker has
	// handed it over for the third time before a crash is counted, and with three
	// counted it is parked.
	deaths = 2 + 3
)

func poison() Scenario {
	return Scenario{
		Name: "poison", Outcome: Parked, Any: true, Next: "malformed",
		Tags:  []string{"kill", "parked"},
		Title: "a message that kills its worker each time",
		Shows: "kills its worker each time: parked; those behind are sent",
		Help: `One message kills its worker whenever it is handled (a body that crashes a parser, say).
The broker gives it back, the next life dies of it, and so on for ever: twenty others
behind it would never be sent. So a delivery that comes for the third time is a suspect:
it is handled with nothing else in hand, after its crashes are counted in Redis. With
three counted (so after five in all) it is parked unhandled, and the worker lives.

To leave this to the broker's own delivery limit is not enough. A crash raises the
broker's count for all that was prefetched: at prefetch 50 a limit of 3 parks the twenty
innocents with the one that kills. Here they are suspects, too, but each is counted by
itself, handled alone, and sent. The limit stays as a last resort, at 100.

Two workers, concurrency 1: push at prefetch 1, where the innocents wait in the queue;
email at prefetch 50, where each crash hits all that are in hand. Works under any settings.

What to look for
  CRASH — worker dying after receive five times on each channel, then DEAD-LETTER: crashed.
  Twenty are redelivered on email and none on push; on both all are sent, once.`,
		ByHand: `  notifylab supervise push=1 -- --prefetch 50 --concurrency 1                                          # one terminal
  notifylab produce --channel push --crash-at after-receive,always; notifylab produce --channel push --count 20   # another
  # CRASH five times, DEAD-LETTER -> push.dlq: crashed, and SENT twenty times
  notifylab dlq show push --reason crashed`,
		channels: notify.Channels(),
		play:     playPoison,
		judge:    judgePoison,
	}
}

func playPoison(ctx context.Context, s *stage) error {
	killer := s.notification(1, "7", s.text())
	crowd := s.crowd(2, innocents, "innocent")
	var posts []post
	for _, c := range notify.Channels() {
		posts = append(posts, post{killer, c, worker.AfterReceive + ",always"})
		for _, n := range crowd {
			posts = append(posts, post{n, c, ""})
		}
	}
	// Before there are workers, so that from the first crash on all are in hand.
	if err := s.publish(ctx, posts...); err != nil {
		return err
	}
	if _, err := s.worker(ctx, notify.Push); err != nil {
		return err
	}
	if _, err := s.worker(ctx, notify.Email, "--prefetch", "50"); err != nil {
		return err
	}
	for _, c := range notify.Channels() {
		if err := s.awaitPoint(ctx, event.Crash, killer, crowd[0], c, worker.AfterReceive); err != nil {
			return err
		}
		if err := s.await(ctx, event.DeadLetter, killer.ID, c); err != nil {
			return err
		}
		for _, n := range crowd {
			if err := s.awaitSettled(ctx, n.ID, c); err != nil {
				return err
			}
		}
		s.note(killer, c, len(crowd), fmt.Sprintf("%s: the %d behind it are sent", c, len(crowd)))
	}
	return nil
}

func judgePoison(c cast, r *Record) Verdict {
	crowd := c.all[1:]
	var findings []Finding
	var fates []Fate
	for _, ch := range notify.Channels() {
		killer, name := subject(c.victim, ch), string(ch)
		findings = append(findings,
			r.accepted(name+", "+c.victim.ID, killer, 0),
			r.times(name+" worker lines", killer, event.Crash, deaths),
			r.restarts(ch, "killed", deaths, c.victim.ID),
			r.times(name+" worker lines", killer, event.DeadLetter, 1),
			r.times(name+" worker lines", killer, event.Sent, 0),
			r.ready(name+".dlq", 1),
			r.kept(ch, []notify.Notification{c.victim}, [][]byte{notify.Encode(c.victim)}, "crashed, 0 attempts"),
			r.eachRedelivered(name+", those behind it", crowd, ch, ch == notify.Email),
			r.eachAccepted(name+", those behind it", crowd, ch, 1),
			r.eachSent(crowd, ch),
			r.ready("notify."+name, 0))
		fates = append(fates, r.fate(c.victim, ch))
	}
	for _, n := range crowd {
		fates = append(fates, r.fate(n, notify.Push), r.fate(n, notify.Email))
	}
	findings = append(findings, r.elsewhere("notify.push", "notify.email", "push.dlq", "email.dlq"))
	v := judged(r, findings, fates).about(c.victim.ID)
	v.Want, v.Why = Parked, "three crashes were counted, then it was parked unhandled, and nobody else with it"
	return v
}
