package main

import (
	"context"
	"os"
	"sync"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/worker"
)

// chronicle is what a worker writes down in Redis while it lives: its events, the
// queues that it has declared, and how much it has in hand. A worker works as well
// without, and waits for it only a moment, ever.
type chronicle struct {
	journal *lab.Journal // nil: none
	notes   *lab.Notes
	note    lab.WorkerNote
	stop    context.CancelFunc
	ended   chan struct{}

	mu       sync.Mutex
	session  *broker.Session
	declared *broker.Topology // nil: nothing yet
}

// sayEvery is how often a worker says that it lives; what it has in hand is said as
// it changes, ten times a second at most.
const (
	sayEvery  = time.Second
	lookEvery = 100 * time.Millisecond
)

// openChronicle begins it. Close must be called, and not before the worker has
// ended: what it has in hand until then is to be seen, whatever becomes of ctx.
func (a *app) openChronicle(ctx context.Context, client idem.Client, cfg *worker.Config, says *voice, slot *idem.Slot, w workerFlags) *chronicle {
	c := &chronicle{
		notes: lab.NewNotes(client, a.ns(), w.keyExpires),
		note:  lab.WorkerNote{Name: cfg.Name, Owner: slot.Owner().String(), PID: os.Getpid(), Queue: cfg.Queue},
		ended: make(chan struct{}),
	}
	if w.journal == "on" {
		c.journal = lab.NewJournal(client, a.ns(), w.keyExpires)
		says.journal = c.journal
		cfg.Flush = c.journal.Flush
	}
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	go c.live(ctx)
	return c
}

// live says that the worker lives, until ctx ends. While Redis is away it tries
// once a second.
func (c *chronicle) live(ctx context.Context) {
	defer close(c.ended)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var tried time.Time
	said := -1 // in hand as it was said last; less: it has to be said again
	for {
		n := c.inHand()
		if n != said && said >= 0 || time.Since(tried) >= sayEvery {
			tried = time.Now()
			if said = n; !c.say(ctx, n) {
				said = -1
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *chronicle) inHand() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil {
		return 0
	}
	return c.session.InHand()
}

// say returns whether all is noted.
func (c *chronicle) say(ctx context.Context, inHand int) bool {
	ctx, cancel := context.WithTimeout(ctx, sayEvery)
	defer cancel()
	c.note.InHand = inHand
	return c.notes.Alive(ctx, c.note) == nil && c.noteQueues(ctx)
}

// noteQueues notes what was declared: again and again, since a reset forgets it.
func (c *chronicle) noteQueues(ctx context.Context) bool {
	c.mu.Lock()
	t := c.declared
	c.mu.Unlock()
	return t == nil || c.notes.Declared(ctx, string(t.Type), t.QueueNames()...) == nil
}

// opened hears of a new session, whose queues were declared. They are noted by the
// time that the worker is ready, unless Redis is slow or away: then later.
func (c *chronicle) opened(ctx context.Context, s *broker.Session, t broker.Topology) {
	if c == nil {
		return // without Redis nothing is written down
	}
	c.mu.Lock()
	c.session, c.declared = s, &t
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	c.noteQueues(ctx)
}

// close writes what is still to be written, for a second at most, and a little more
// if Redis is away. It is called when the worker has ended.
func (c *chronicle) close() {
	c.stop()
	<-c.ended
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if c.journal != nil {
		_ = c.journal.Close(ctx) // it has been printed as well
	}
	_ = c.notes.Gone(ctx, c.note.Owner) // else it ends by itself
}

// noteQueues notes queues that were declared, on the side: a producer needs no
// Redis. It returns what waits for that, a moment.
func (a *app) noteQueues(t broker.Topology) func() {
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		client, err := idem.Dial(a.redisURL, 1)
		if err != nil {
			return
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = lab.NewNotes(client, a.ns(), 0).Declared(ctx, string(t.Type), t.QueueNames()...) // a comfort for queues
	}()
	return func() { <-noted }
}
