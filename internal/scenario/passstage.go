package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/lab"
	"notifylab/internal/passes"
	"notifylab/internal/supervise"
)

// A passStage is a stage on which passes expire: their events go into a log or into
// queues, and whoever reacts is a process.
type passStage struct {
	*stage
	log      passes.Log
	register *passes.Register
	queues   []string // that reactions have, by full name
	events   []passes.Expired
}

func newPassStage(s *stage) *passStage {
	p := &passStage{stage: s, register: passes.NewRegister(s.redis, s.Namespace, keyMemory)}
	s.also = append(s.also, p.takeIn)
	s.undo = append(s.undo, func(ctx context.Context) error { return s.conn.Delete(ctx, p.queues...) })
	return p
}

// layLog makes a log, the broker's streams. A stream does not expire: it is noted, so
// that a later run deletes it should this one be killed, as this one does with what
// others have left.
func (s *passStage) layLog(ctx context.Context, partitions int) error {
	s.log = passes.Log{Namespace: s.Namespace, Partitions: partitions}
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), declareLimit)
	defer cancel()
	names, lent := s.log.Queues(), lab.NewStreams(s.redis)
	if err := s.sweep(whole, lent); err != nil {
		return err
	}
	if s.Keep {
		if err := lab.NewNotes(s.redis, s.Namespace, 0).Declared(whole, "stream", names...); err != nil {
			return err
		}
	} else {
		if err := lent.Lend(whole, s.expiry(), names...); err != nil {
			return err
		}
		if err := lab.NewNotes(s.redis, s.Namespace, keyMemory).Declared(whole, "stream", names...); err != nil {
			return err
		}
		s.undo = append(s.undo, func(ctx context.Context) error {
			if err := s.conn.Delete(ctx, names...); err != nil {
				return err
			}
			return lent.Returned(ctx, names...)
		})
	}
	if err := s.conn.DeclareStreams(whole, s.log.Streams()...); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// sweep deletes the streams that runs have left which were killed.
func (s *passStage) sweep(ctx context.Context, lent lab.Streams) error {
	names, err := lent.Overdue(ctx)
	if err != nil || len(names) == 0 {
		return err
	}
	if err := s.conn.Delete(ctx, names...); err != nil {
		return err
	}
	return lent.Returned(ctx, names...)
}

// expires makes the next event: the pass comes to its end.
func (s *passStage) expires(pass string) passes.Post {
	x := passes.Expired{ID: s.id(len(s.events) + 1), Pass: pass, User: fmt.Sprint(len(s.events) + 1), Text: "your pass has expired"}
	s.events = append(s.events, x)
	return passes.Post{Expired: x}
}

// expire makes n events of passes of their own.
func (s *passStage) expire(n int) []passes.Post {
	var posts []passes.Post
	for range n {
		posts = append(posts, s.expires(fmt.Sprintf("pass-%d", len(s.events)+1)))
	}
	return posts
}

// expireIn makes an event of each of these partitions, one after the other: of passes
// of their own that belong there.
func (s *passStage) expireIn(partitions ...int) []passes.Post {
	var posts []passes.Post
	for n := len(s.events); len(posts) < len(partitions); n++ {
		pass := fmt.Sprintf("pass-%d", n+1)
		if s.log.Partition(pass) == partitions[len(posts)] && !slices.ContainsFunc(s.events, func(x passes.Expired) bool { return x.Pass == pass }) {
			posts = append(posts, s.expires(pass))
		}
	}
	return posts
}

// armed arms a crash point of the first of some posts.
func armed(point passes.Point, posts []passes.Post) []passes.Post {
	posts[0].Crash = string(point)
	return posts
}

func idsOf(posts []passes.Post) []string {
	var ids []string
	for _, p := range posts {
		ids = append(ids, p.ID)
	}
	return ids
}

// issue writes the passes of some events into the register.
func (s *passStage) issue(ctx context.Context, posts []passes.Post) error {
	var events []passes.Expired
	for _, p := range posts {
		events = append(events, p.Expired)
	}
	return s.register.Issue(ctx, events...)
}

// append puts events into the log.
func (s *passStage) append(ctx context.Context, posts ...passes.Post) error {
	p, err := passes.NewProducer(context.WithoutCancel(ctx), s.conn, s.log, "producer", s.emit)
	if err != nil {
		return err
	}
	return s.produce(ctx, p, posts)
}

// enqueue puts events into one queue.
func (s *passStage) enqueue(ctx context.Context, queue string, posts ...passes.Post) error {
	p, err := passes.NewAnnouncer(context.WithoutCancel(ctx), s.conn, "", s.queueOf(queue), "producer", s.emit)
	if err != nil {
		return err
	}
	return s.produce(ctx, p, posts)
}

// announce publishes events to the exchange: each queue that is bound to it gets them.
func (s *passStage) announce(ctx context.Context, posts ...passes.Post) error {
	p, err := passes.NewAnnouncer(context.WithoutCancel(ctx), s.conn, s.Namespace.Queue("passes.expired"), "", "producer", s.emit)
	if err != nil {
		return err
	}
	return s.produce(ctx, p, posts)
}

// produce publishes events back to back. Whoever has them says nothing of them before
// the broker's word was passed on.
func (s *passStage) produce(ctx context.Context, p *passes.Producer, posts []passes.Post) error {
	if err := s.issue(ctx, posts); err != nil {
		return err
	}
	var errs []error
	var confirms []func() error
	for _, post := range posts {
		queued := s.stage.queue(Subject{post.ID, ""})
		flight, err := p.Start(ctx, post)
		confirms = append(confirms, func() error {
			defer close(queued)
			if err != nil {
				return err
			}
			return flight.Wait(ctx)
		})
	}
	for _, confirmed := range confirms {
		errs = append(errs, confirmed())
	}
	return errors.Join(errs...)
}

// queueOf is the full name of a reaction's queue.
func (s *passStage) queueOf(name string) string { return s.Namespace.Queue("passes." + name) }

// part starts a part, for one life, and returns when it is ready.
func (s *passStage) part(ctx context.Context, name string, args ...string) (*supervise.Process, error) {
	argv := append(append(slices.Clone(s.Program), args...), "--namespace", string(s.Namespace), "--state-dir", s.dir, "-o", "json",
		"--provider-url", s.listening.URL(), "--queue-expires", s.expiry().String(), "--key-expires", keyMemory.String())
	from := s.history.Len()
	p, err := s.workers.Start(supervise.Child{Name: name, Argv: argv, Env: s.Env, Once: true})
	if err != nil {
		return nil, err
	}
	e, err := s.history.AwaitFrom(ctx, from, func(e event.Event) bool {
		return e.Source == name && (e.Kind == event.Ready || e.Kind == event.Produced || e.Kind == event.Queued) || e.Kind == event.Exited && e.Owner == name
	})
	switch {
	case err != nil:
		return p, never{name + " did not become ready", s.lastLog(), context.Cause(ctx)}
	case e.Kind == event.Exited:
		return p, never{name + " did not become ready", s.lastLog(), errors.New("it ended with " + e.Exit)}
	}
	return p, nil
}

// Members are heard that often. They count as dead only where that is shown.
const (
	memberBeat = 50 * time.Millisecond
	memberTTL  = time.Minute
)

// reader starts a member of a group that reads the log, and returns when it is in.
func (s *passStage) reader(ctx context.Context, name, group string, flags ...string) (*supervise.Process, error) {
	args := []string{"reader", name, "--group", group, "--partitions", fmt.Sprint(s.log.Partitions), "--declare=false",
		"--ttl", memberTTL.String(), "--beat", memberBeat.String()}
	return s.part(ctx, name, append(args, flags...)...)
}

// reaction starts a process that reacts to what is in a queue, and returns when it
// consumes.
func (s *passStage) reaction(ctx context.Context, name, queue string, args ...string) (*supervise.Process, error) {
	full := s.queueOf(queue)
	if !slices.Contains(s.queues, full) {
		s.queues = append(s.queues, full)
	}
	return s.part(ctx, name, append([]string{"reaction", "--name", name, "--queue", queue}, args...)...)
}

// waiting waits until so many messages are ready in a reaction's queue.
func (s *passStage) waiting(ctx context.Context, queue string, want int) error {
	return s.awaitReady(ctx, s.queueOf(queue), want)
}

// kill kills a process as kill -9 does, and returns when all that it said is known.
func (s *passStage) kill(ctx context.Context, p *supervise.Process) error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	return s.gone(ctx, p)
}

// gone waits until a process has ended.
func (s *passStage) gone(ctx context.Context, p *supervise.Process) error {
	if err := p.AwaitExit(ctx); err != nil {
		return never{p.Name() + " did not end", s.lastLog(), context.Cause(ctx)}
	}
	return nil
}

// hear waits for an event from the n-th on.
func (s *passStage) hear(ctx context.Context, n int, what string, match func(event.Event) bool) (event.Event, error) {
	e, err := s.history.AwaitFrom(ctx, n, match)
	if err != nil {
		return e, never{what, s.lastLog(), context.Cause(ctx)}
	}
	return e, nil
}

// each waits until an event that matches came for each of these ids.
func (s *passStage) each(ctx context.Context, what string, ids []string, match func(event.Event) bool) error {
	left := map[string]bool{}
	for _, id := range ids {
		left[id] = true
	}
	_, err := s.history.Await(ctx, func(e event.Event) bool {
		if match(e) {
			delete(left, e.ID)
		}
		return len(left) == 0
	})
	if err != nil {
		return never{fmt.Sprintf("%s: %d of %d were not", what, len(left), len(ids)), s.lastLog(), context.Cause(ctx)}
	}
	return nil
}

// acked waits until a reaction has acked each of these.
func (s *passStage) acked(ctx context.Context, posts ...passes.Post) error {
	return s.each(ctx, "acked", idsOf(posts), func(e event.Event) bool { return e.Kind == event.Acked })
}

// committed waits until a group has committed each of these.
func (s *passStage) committed(ctx context.Context, group string, posts ...passes.Post) error {
	return s.each(ctx, "committed by "+group, idsOf(posts), func(e event.Event) bool {
		return e.Kind == event.Committed && e.Group == group
	})
}

// tell says something that only the scenario can know.
func (s *passStage) tell(e event.Event) {
	e.Time, e.Kind, e.Source, e.PID = time.Now(), event.Note, source, os.Getpid()
	s.emit(e)
}

// hush has text show no more of these than that they were sent.
func (s *passStage) hush(posts []passes.Post) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range posts {
		s.quiet[p.ID] = event.Sent
	}
}
