package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
	"notifylab/internal/supervise"
	"notifylab/internal/worker"
)

// What plays are made of. All that waits here waits for something that somebody
// said or that was counted, and its error is a [never].

func (s *stage) id(n int) string { return fmt.Sprintf("%s-%d", s.Namespace, n) }

// notification makes the n-th notification of the run, from 1.
func (s *stage) notification(n int, user, text string) notify.Notification {
	return s.register(notify.Notification{ID: s.id(n), User: user, Text: text})
}

func (s *stage) register(n notify.Notification) notify.Notification {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[n.ID] = n
	return n
}

// behind makes the notification that is published right behind the victim: that
// it is accepted shows that the worker could send.
func (s *stage) behind(n int, user string) notify.Notification {
	m := s.notification(n, user, "the one behind it")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet[m.ID] = event.Sent
	return m
}

// crowd makes so many notifications, from the first-th on, for users of their own.
// They are too many to be shown.
func (s *stage) crowd(first, number int, text string) []notify.Notification {
	var all []notify.Notification
	for n := first; n < first+number; n++ {
		all = append(all, s.notification(n, strconv.Itoa(100+n), text))
	}
	s.hush(all)
	return all
}

func (s *stage) hush(all []notify.Notification) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range all {
		s.quiet[m.ID] = ""
	}
}

// text is what the victim's person reads: one of a few, by the seed, so that two
// runs differ and one can be had again.
func (s *stage) text() string {
	texts := []string{
		"your pass expires tomorrow", "your pass expires in an hour", "your pass has expired",
		"your pass can be renewed", "your seat was changed",
	}
	return texts[rand.New(rand.NewPCG(uint64(s.Seed), 0)).IntN(len(texts))]
}

// cast returns who plays in this run.
func (s *stage) cast() cast {
	c := cast{settings: s.Settings, beside: s.beside}
	for i := 1; ; i++ {
		n, ok := s.named(s.id(i))
		if !ok {
			return c
		}
		switch i {
		case 1:
			c.victim = n
		case 2:
			c.behind = n
		}
		c.all = append(c.all, n)
	}
}

// A post is one message to publish.
type post struct {
	notify.Notification
	channel notify.Channel
	crash   worker.Point // that it arms, with ",stop" or ",always" behind it; may be empty
}

// on returns n as a post for each of some channels.
func on(n notify.Notification, channels ...notify.Channel) []post {
	var posts []post
	for _, c := range channels {
		posts = append(posts, post{n, c, ""})
	}
	return posts
}

// window is how many messages may be in flight.
const window = 256

// publish publishes messages back to back, so that each (of one window) is in its queue
// before anything can come of the one before it, and returns when all are confirmed.
func (s *stage) publish(ctx context.Context, posts ...post) error {
	var errs []error
	for some := range slices.Chunk(posts, window) {
		var confirms []func() error
		for _, p := range some {
			confirms = append(confirms, s.start(ctx, p))
		}
		for _, confirmed := range confirms {
			errs = append(errs, confirmed())
		}
	}
	return errors.Join(errs...)
}

// start puts a message in flight. What it returns must be called: it waits for the
// confirm, and lets the worker's own words about the message pass after it.
func (s *stage) start(ctx context.Context, p post) (confirmed func() error) {
	return s.startMessage(ctx, p, broker.NewMessage(s.topology.Names, p.channel, p.Notification, string(p.crash)))
}

// startMessage is start for a message of any form, whatever post it is to be taken
// for.
func (s *stage) startMessage(ctx context.Context, p post, m broker.Message) (confirmed func() error) {
	queued := s.queue(Subject{p.ID, string(p.channel)})
	r, err := s.publisher.Start(ctx, m)
	told := event.Event{
		Kind: event.Queued, Source: "producer", PID: os.Getpid(),
		ID: p.ID, Channel: string(p.channel), User: p.User, Queue: m.Queue,
	}
	return func() error {
		defer close(queued)
		fate := broker.Unknown
		if err == nil {
			fate, err = r.Wait(ctx)
		}
		told.Time = time.Now()
		switch {
		case fate == broker.Confirmed:
			s.emit(told)
			return nil
		case fate == broker.Returned:
			told.Kind, err = event.Returned, notify.ErrReturned
			s.emit(told)
		case ctx.Err() != nil:
			return never{what: fmt.Sprintf("%s was not confirmed on %s", p.ID, p.channel), err: context.Cause(ctx)}
		}
		return fmt.Errorf("publish %s on %s: %v: %w", p.ID, p.channel, fate, err)
	}
}

// worker starts a worker of a channel and returns when it is ready. The stage has made
// its queues: a worker that is ended while it makes some could have them made after the
// clean-up.
func (s *stage) worker(ctx context.Context, c notify.Channel, flags ...string) (*supervise.Process, error) {
	argv := append(append([]string(nil), s.Worker(c)...),
		"--namespace", string(s.Namespace), "--state-dir", s.dir, "-o", "json", "--declare=false",
		"--provider-url", s.listening.URL(), "--prefetch", strconv.Itoa(s.prefetch()), "--concurrency", strconv.Itoa(s.concurrency()), "--queue-expires", s.expiry().String(), "--key-expires", keyMemory.String())
	if s.Settings.Ack == "early" { // of no lab's settings, but the worker's own
		argv = append(argv, "--ack", "early")
	}
	from := s.history.Len()
	p, err := s.workers.Start(supervise.Child{Name: string(c) + "-worker", Argv: append(argv, flags...), Env: s.Env})
	if err != nil {
		return nil, err
	}
	_, err = s.history.AwaitFrom(ctx, from, func(e event.Event) bool { return e.Kind == event.Ready && e.Channel == string(c) })
	if err != nil {
		return p, never{fmt.Sprintf("no %s worker became ready", c), s.ends(from), context.Cause(ctx)}
	}
	return p, nil
}

// concurrency and prefetch are what a worker has in hand at once unless a scenario
// needs otherwise: one message, or more deliveries than handlers.
func (c Config) concurrency() int { return max(1, c.Concurrency) }

func (c Config) prefetch() int {
	return max(1, 2*c.Concurrency)
}

// ends says how workers have ended from the n-th event on, or what was said last.
func (s *stage) ends(from int) string {
	n, last := 0, ""
	for _, e := range s.history.All()[from:] {
		switch e.Kind {
		case event.Restart:
			n++
			last = e.Exit
		case event.GaveUp:
			return "" // which is why nobody waits any longer, and says how it ended
		}
	}
	if n == 0 {
		return s.lastLog()
	}
	text := fmt.Sprintf("it ended %s, the last time with %s", quantity(n, "times"), last)
	if log := s.lastLog(); log != "" {
		text += ": " + log
	}
	return text
}

// await waits for an event of a kind about a notification.
func (s *stage) await(ctx context.Context, kind event.Kind, id string, c notify.Channel) error {
	return s.awaitTimes(ctx, 1, kind, id, c)
}

// awaitTimes waits for so many of them.
func (s *stage) awaitTimes(ctx context.Context, times int, kind event.Kind, id string, c notify.Channel) error {
	seen := 0
	_, err := s.history.Await(ctx, func(e event.Event) bool {
		if e.Kind == kind && about(e, Subject{id, string(c)}) {
			seen++
		}
		return seen == times
	})
	switch {
	case err == nil:
		return nil
	case times == 1:
		return never{fmt.Sprintf("no %s came for %s on %s", words(kind), id, c), s.reason(id, c), context.Cause(ctx)}
	}
	return never{fmt.Sprintf("%s came %d times, not %d, for %s on %s", words(kind), seen, times, id, c), s.reason(id, c), context.Cause(ctx)}
}

// patient are the flags of a worker whose send the provider keeps waiting: on a busy
// machine, too, it is not given up.
func patient() []string { return []string{"--send-timeout", "15s", "--lease", patientLease.String()} }

const patientLease = 20 * time.Second

// hold has the provider keep some notifications' calls waiting until release is
// called.
func (s *stage) hold(ids ...string) (release func()) {
	var f provider.Faults
	for _, id := range ids {
		f.Gate = append(f.Gate, provider.Gate{Hold: id})
	}
	s.provider.SetFaults(f)
	return func() { s.provider.SetFaults(provider.Faults{}) }
}

// awaitHeld waits until the provider keeps so many calls for a notification
// waiting.
func (s *stage) awaitHeld(ctx context.Context, calls int, id string, c notify.Channel) error {
	if err := s.provider.Await(ctx, func(l *provider.Ledger) bool { return l.Held(id, c) == calls }); err != nil {
		return never{fmt.Sprintf("the provider never had %s for %s on %s in hand", quantity(calls, "calls"), id, c), s.reason(id, c), context.Cause(ctx)}
	}
	return nil
}

// awaitAccepted waits until the provider has accepted a notification.
func (s *stage) awaitAccepted(ctx context.Context, id string, c notify.Channel) error {
	if err := s.provider.Await(ctx, func(l *provider.Ledger) bool { return l.Accepted(id, c) > 0 }); err != nil {
		return never{fmt.Sprintf("%s was not accepted on %s", id, c), s.reason(id, c), context.Cause(ctx)}
	}
	return nil
}

// awaitWorker waits until a worker of a channel says something of itself, from the
// n-th event on.
func (s *stage) awaitWorker(ctx context.Context, n int, kind event.Kind, c notify.Channel) error {
	_, err := s.history.AwaitFrom(ctx, n, func(e event.Event) bool { return e.Kind == kind && e.ID == "" && e.Channel == string(c) })
	if err != nil {
		return never{fmt.Sprintf("no %s worker said %s", c, words(kind)), s.lastLog(), context.Cause(ctx)}
	}
	return nil
}

// awaitSettled waits until a notification is accepted and its message acked.
func (s *stage) awaitSettled(ctx context.Context, id string, c notify.Channel) error {
	if err := s.awaitAccepted(ctx, id, c); err != nil {
		return err
	}
	return s.await(ctx, event.Acked, id, c)
}

// awaitPoint waits until a notification has brought its worker to a crash point, of
// which an event of that kind tells. If the worker, whose hands are full, takes up the
// one behind it instead it never will.
func (s *stage) awaitPoint(ctx context.Context, kind event.Kind, victim, behind notify.Notification, c notify.Channel, point worker.Point) error {
	e, err := s.history.Await(ctx, func(e event.Event) bool {
		return about(e, subject(victim, c)) && e.Kind == kind || about(e, subject(behind, c)) && e.Kind == event.Received ||
			(e.Kind == event.Unknown || e.Redelivered) && slices.ContainsFunc(s.beside, func(n notify.Notification) bool { return about(e, subject(n, c)) })
	})
	what := fmt.Sprintf("the crash point %s was never reached", point)
	switch {
	case err != nil:
		return never{what, s.reason(victim.ID, c), context.Cause(ctx)}
	case e.Kind == kind:
		return nil
	case e.ID == behind.ID:
		return never{what, s.reason(victim.ID, c), fmt.Errorf("%s was settled without it", victim.ID)}
	}
	return never{what, e.Reason, fmt.Errorf("the worker lost %s, beside it, before", e.ID)}
}

// reason returns the last reason that a worker gave for what it did with a
// notification, "" if it gave none.
func (s *stage) reason(id string, c notify.Channel) string {
	last := ""
	for _, e := range s.history.All() {
		if e.ID == id && e.Channel == string(c) && e.Reason != "" {
			last = e.Reason
		}
	}
	return last
}

// note says something that only the scenario can know.
func (s *stage) note(n notify.Notification, c notify.Channel, number int, reason string) {
	s.emit(event.Event{
		Time: time.Now(), Kind: event.Note, Source: source, PID: os.Getpid(),
		ID: n.ID, Channel: string(c), Messages: number, Reason: reason,
	})
}

// source is who says the scenario's own events.
const source = "scenario"
