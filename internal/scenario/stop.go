package scenario

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
	"notifylab/internal/supervise"
	"notifylab/internal/worker"
)

// Many scenarios are one play: a message stops its worker at a point (SIGSTOP, by
// its own hand). The broker hears no heartbeat, forgets it and hands its message to
// another worker. When that one has settled all it got the first is woken, and goes
// on from where it was.

// stopLease is the lease of workers that are stopped: longer than the broker takes
// to forget them, so that what is redelivered meets it.
const stopLease = 8 * time.Second

// A watch is how a worker is run that is to be stopped.
type watch struct {
	heartbeat, sendTimeout time.Duration
	faults                 provider.Faults // that it meets
}

// stoppedFlags are those of the one that is to be missed soon: after three heartbeats
// at most.
func (s *stage) stoppedFlags(w watch) []string {
	if s.concurrency() > 1 { // the others' sends are to outlast the way to the point
		w.sendTimeout = stopLease - worker.MinLease(0) // as long as that lease allows
	}
	return append(s.laterFlags(), "--heartbeat", w.heartbeat.String(), "--send-timeout", w.sendTimeout.String())
}

// laterFlags are those of the workers that come after it. They have time, so that neither
// the broker nor they themselves give up when the machine is busy.
func (s *stage) laterFlags() []string {
	return append(s.fullHands(), "--lease", stopLease.String())
}

// stopAt makes a scenario of a stop at a point.
func stopAt(point worker.Point, s Scenario) Scenario {
	s.channels = []notify.Channel{notify.Push}
	s.check = func(settings event.Settings) error {
		_, err := Predict(settings, point, Stop)
		return err
	}
	s.play = func(ctx context.Context, st *stage) error { return playStop(ctx, st, point) }
	s.judge = func(c cast, r *Record) Verdict { return judgeStop(c, r, point) }
	return s
}

func playStop(ctx context.Context, s *stage, point worker.Point) error {
	w := watch{heartbeat: time.Second, sendTimeout: time.Second}
	all := []notify.Notification{s.victim(point)}
	var behind []post
	if s.Settings.Ack != "early" && point != worker.AfterAck { // else it would be in the stopped worker's hand, too
		all = append(all, s.behind(2, "8"))
		behind = on(all[1], notify.Push)
	}
	first, err := s.stopped(ctx, point, w, all[0], behind...)
	if err != nil {
		return err
	}
	if _, err := s.worker(ctx, notify.Push, s.laterFlags()...); err != nil {
		return err
	}
	all = append(all, s.behind(len(all)+1, "8"))
	if err := s.forgotten(ctx, all...); err != nil {
		return err
	}
	if err := s.wake(ctx, first); err != nil {
		return err
	}
	return s.awaitEnds(ctx, notify.Push, append(all, s.beside...)...)
}

// stopped starts a worker and returns when a notification has stopped it, all of
// it. What is behind it is published right after it: the last of that, if there is
// any, is for after the stop.
func (s *stage) stopped(ctx context.Context, point worker.Point, w watch, victim notify.Notification, behind ...post) (*supervise.Process, error) {
	p, err := s.worker(ctx, notify.Push, s.stoppedFlags(w)...)
	if err != nil {
		return nil, err
	}
	if err := s.fillHand(ctx, w.faults); err != nil {
		return nil, err
	}
	if err := s.publish(ctx, append([]post{{victim, notify.Push, point + ",stop"}}, behind...)...); err != nil {
		return nil, err
	}
	last := post{}
	if len(behind) > 0 {
		last = behind[len(behind)-1]
	}
	if err := s.awaitPoint(ctx, event.Stopped, victim, last.Notification, notify.Push, point); err != nil {
		return nil, err
	}
	if err := supervise.AwaitStopped(ctx, p.Pid()); err != nil {
		return nil, never{"the worker did not stop", "", err}
	}
	return p, nil
}

// forgotten returns when the broker has given a stopped worker up, and the other
// has settled all it got, and the last of these, which is published now. It notes how
// much the queue holds then.
func (s *stage) forgotten(ctx context.Context, all ...notify.Notification) error {
	work := s.topology.Work(notify.Push)
	if _, err := s.consumed(ctx, work, 1); err != nil {
		return err
	}
	if err := s.send(ctx, all[len(all)-1], notify.Push); err != nil {
		return err
	}
	if err := s.awaitAsleep(ctx, notify.Push, append(all, s.beside...)...); err != nil {
		return err
	}
	waiting, err := s.consumed(ctx, work, 1)
	if err != nil {
		return err
	}
	s.note(all[0], notify.Push, waiting, fmt.Sprintf("notify.push holds %d, and the stopped worker consumes it no more: waking it", waiting))
	return nil
}

// wake continues a stopped worker and returns when it consumes again.
func (s *stage) wake(ctx context.Context, p *supervise.Process) error {
	from := s.history.Len()
	if err := p.Signal(unix.SIGCONT); err != nil {
		return err
	}
	name := p.Name()
	_, err := s.history.AwaitFrom(ctx, from, func(e event.Event) bool { return e.Kind == event.Ready && e.Source == name })
	if err != nil {
		return never{name + " did not become ready again", s.lastLog(), context.Cause(ctx)}
	}
	return nil
}

func judgeStop(c cast, r *Record, point worker.Point) Verdict {
	want, err := Predict(c.settings, point, Stop)
	if err != nil {
		return inconclusive(r.Events, r.Elapsed, err.Error())
	}
	victim := Subject{c.victim.ID, string(notify.Push)}
	findings := []Finding{r.acceptedAs(victim, want)}
	fates := []Fate{r.fate(c.victim, notify.Push)}
	for _, n := range c.all[1:] {
		findings = append(findings, r.accepted("one behind it", Subject{n.ID, string(notify.Push)}, 1))
		fates = append(fates, r.fate(n, notify.Push))
	}
	findings = append(findings,
		r.said("worker lines", victim, want.Lines...),
		r.slept(victim, want.Redelivered),
		r.noted("notify.push, before it was woken", victim, 0, "messages"))
	sent := r.times("worker lines", victim, event.Sent, count(want.Lines, event.Sent))
	if point == worker.MidSend { // where whoever wakes may still read its answer
		sent = sent.orOneMore(count(want.Lines, event.Sent), r.count(victim, event.Sent), "sent")
	}
	findings = append(findings, sent)
	if want.Late {
		findings = append(findings, r.late(victim))
	}
	if want.Record != "" {
		findings = append(findings, r.record(victim, want.Record, retention))
	}
	findings = append(findings, r.besides(c, point, Stop)...)
	findings = append(findings, r.leftovers(c.victim, want)...)
	return judged(r, findings, fates).about(c.victim.ID).predicted(want)
}

// acceptedAs checks how often the provider accepted something, where chance may
// decide.
func (r *Record) acceptedAs(s Subject, want Prediction) Finding {
	f := r.accepted(s.ID, s, want.Accepted)
	if want.OrTwice {
		f = f.orOneMore(want.Accepted, r.Ledger[s], "accepted")
	}
	return f
}

// orOneMore lets a number be one more than was wanted, too.
func (f Finding) orOneMore(want, got int, unit string) Finding {
	f.Want, f.OK = fmt.Sprintf("%d or %d %s", want, want+1, unit), got == want || got == want+1
	return f
}

// late checks that it was accepted after the broker had forgotten it.
func (r *Record) late(s Subject) Finding {
	forgotten := func(e event.Event) bool { return e.Kind == event.Note && e.Source == source && about(e, s) }
	accepted := func(e event.Event) bool { return e.Kind == event.Accepted && about(e, s) }
	return r.order("the broker had forgotten it, when it was accepted", forgotten, accepted, s.ID)
}

// slept checks that the worker said once that it would stop, that another was
// handed the message (if it was to be), and that the first woke after that and
// consumed again. Its session can be there again before the handling goes on.
func (r *Record) slept(s Subject, redelivered bool) Finding {
	f := Finding{What: "after the stop", Want: "woke, ready again", IDs: []string{s.ID}}
	if redelivered {
		f.Want = "redelivered to another, " + f.Want
	}
	var got []string
	stopped, rest := next(r.Events, func(e event.Event) bool { return e.Kind == event.Stopped && about(e, s) })
	again, after := next(rest, func(e event.Event) bool {
		return e.Kind == event.Received && about(e, s) && e.Redelivered && e.Source != stopped.Source
	})
	if again.Kind != "" {
		got, rest = append(got, "redelivered to another"), after
	}
	its := func(kind event.Kind, what string) {
		if e, _ := next(rest, func(e event.Event) bool { return e.Kind == kind && e.Source == stopped.Source }); e.Kind != "" {
			got = append(got, what)
		}
	}
	its(event.Woke, "woke")
	its(event.Ready, "ready again")
	if n := r.count(s, event.Stopped); n != 1 {
		got = append(got, quantity(n, "stops"))
	}
	f.Got = strings.Join(got, ", ")
	f.OK = f.Got == f.Want
	return f
}
