package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/rs/xid"
	"github.com/spf13/cobra"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/lab"
	"notifylab/internal/passes"
)

// expireFlags are the flags of one expiry watcher.
type expireFlags struct {
	partFlags
	direct, log           bool
	partitions            int
	count, first, spread  int
	every                 time.Duration
	prefix, text, crashAt string
	name                  string
}

func (a *app) expireCommand() *cobra.Command {
	var f expireFlags
	cmd := &cobra.Command{
		Use:     "expire",
		GroupID: groupPasses,
		Short:   "Let passes expire: announce each, put it into the log, or do all about it directly",
		Long: `The expiry watcher. It issues passes and has them expire at once: each is announced on
the exchange passes.expired, from which every reaction's queue gets a copy. With --log
it is put into the log instead, in the partition of its pass. With --direct nothing is
published: it fetches the pass, notifies and deletes by itself, one after the other.`,
		Example: `  notifylab expire --direct --count 3
  notifylab expire --log --count 8 --passes 4`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return a.runPart(cmd.Context(), f.partFlags, func(ctx context.Context, p *part) error { return p.expire(ctx, f) })
		},
	}
	f.partFlags.register(cmd.Flags())
	set := cmd.Flags()
	set.BoolVar(&f.direct, "direct", false, "publish nothing: fetch, notify, delete, in one call")
	set.BoolVar(&f.log, "log", false, "put the events into the log")
	set.IntVar(&f.partitions, "partitions", 4, "how many partitions the log has; all must be told the same")
	set.IntVar(&f.count, "count", 1, "how many; 0: until it is told to stop")
	set.IntVar(&f.first, "first", 1, "the number of the first one")
	set.IntVar(&f.spread, "passes", 0, "how many passes the events are spread over; 0: each has its own")
	set.DurationVar(&f.every, "every", 0, "how long from one to the next; 0: back to back")
	set.StringVar(&f.prefix, "prefix", "", "what ids begin with; default: a new one")
	set.StringVar(&f.text, "text", "your pass has expired", "what the person is told")
	set.StringVar(&f.crashAt, "crash-at", "", fmt.Sprintf("the crash point that the first event arms: of a reader %v, of a reaction %v", passes.Points(), passes.ReactionPoints()))
	set.StringVar(&f.name, "name", "", "what to call it; default: watcher, with --direct caller")
	return cmd
}

func (f *expireFlags) check() error {
	switch {
	case f.direct && f.log:
		return usagef("--direct publishes nothing: not with --log")
	case f.count < 0 || f.first < 1 || f.spread < 0:
		return usagef("--count, --first, --passes: not less than 0, 1, 0")
	case f.partitions < 1 || f.partitions > 64:
		return usagef("--partitions %d: from 1 to 64", f.partitions)
	case f.count == 0 && f.every <= 0:
		return usagef("--count 0: with --every, so that there is an end to what it does in a second")
	}
	if f.crashAt != "" {
		if _, err := lab.ParseArming(f.crashAt, append(passes.Points(), passes.ReactionPoints()...)); err != nil {
			return usagef("--crash-at: %w", err)
		}
	}
	f.prefix = cmp.Or(f.prefix, xid.New().String())
	if err := f.nth(f.first).Validate(); err != nil {
		return usagef("--prefix, --text: %w", err)
	}
	return f.partFlags.check()
}

// nth is the n-th event.
func (f *expireFlags) nth(n int) passes.Post {
	of := n
	if f.spread > 0 {
		of = (n-1)%f.spread + 1
	}
	x := passes.Expired{ID: fmt.Sprintf("%s-%d", f.prefix, n), Pass: fmt.Sprintf("pass-%d", of), User: fmt.Sprint(of), Text: f.text}
	if n == f.first {
		return passes.Post{Expired: x, Crash: f.crashAt}
	}
	return passes.Post{Expired: x}
}

func (p *part) expire(ctx context.Context, f expireFlags) error {
	if f.direct {
		c := &passes.Caller{Register: p.register, Effects: p.effects(reactNotify, reactDelete), Name: cmp.Or(f.name, "caller"), Emit: p.emit}
		return p.produce(ctx, f, c.Name, func(ctx context.Context, posts ...passes.Post) error {
			return c.Expire(ctx, posts[0].Expired)
		})
	}
	name := cmp.Or(f.name, "watcher")
	log := passes.Log{Namespace: p.ns(), Partitions: f.partitions}
	open := p.dial("expire", "stream", nil, func(ctx context.Context, c *broker.Conn) error { return c.DeclareExchange(ctx, p.exchange()) })
	if f.log {
		open = p.dial("expire", "stream", log.Queues(), func(ctx context.Context, c *broker.Conn) error { return c.DeclareStreams(ctx, log.Streams()...) })
	}
	conn, err := open(ctx)
	if err != nil {
		return unavailableError{err}
	}
	defer conn.Close()
	life := context.WithoutCancel(ctx) // what is in flight is awaited
	producer, err := passes.NewAnnouncer(life, conn, p.exchange(), "", name, p.emit)
	if f.log {
		producer, err = passes.NewProducer(life, conn, log, name, p.emit)
	}
	if err != nil {
		return err
	}
	return p.produce(ctx, f, name, producer.Publish)
}

// produce lets passes expire, at its pace, until ctx ends, and says when all is done. What
// failed does not keep it from going on. What is begun when ctx ends is done whole.
func (p *part) produce(ctx context.Context, f expireFlags, name string, do func(context.Context, ...passes.Post) error) error {
	batch := f.count
	if f.every > 0 || f.direct {
		batch = 1
	}
	began, done := time.Now(), 0
	var failed error
	whole := context.WithoutCancel(ctx)
	for ctx.Err() == nil && (f.count == 0 || done < f.count) {
		var posts []passes.Post
		for range batch {
			posts = append(posts, f.nth(f.first+done))
			done++
		}
		if err := p.issue(whole, posts); err != nil {
			return err
		}
		if done == batch {
			began = time.Now()
		}
		if err := do(whole, posts...); err != nil {
			failed = cmp.Or(failed, err)
		}
		if f.every > 0 && !until(ctx, began.Add(time.Duration(done)*f.every)) {
			break
		}
	}
	e := event.Event{Kind: event.Produced, Messages: done, Elapsed: time.Since(began).Milliseconds()}
	if failed != nil {
		e.Reason = failed.Error()
	}
	p.say(name)(e)
	if failed != nil {
		return statusError{exitFinding, ""} // it was said
	}
	return nil
}

func (p *part) issue(ctx context.Context, posts []passes.Post) error {
	var events []passes.Expired
	for _, post := range posts {
		events = append(events, post.Expired)
	}
	return p.register.Issue(ctx, events...)
}
