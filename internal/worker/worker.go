package worker

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/idem"
)

// A Worker handles the deliveries of one channel.
type Worker struct {
	Config
	redis  outage
	latest latest
	all    sync.WaitGroup // handlers, of ended sessions too
	dying  sync.Mutex     // held from before a crash point is marked until the process is dead
	pid    int
}

// New returns a worker. It does nothing before [Worker.Run].
func New(cfg Config) *Worker { return &Worker{Config: cfg, pid: os.Getpid()} }

// Run works until ctx ends, then finishes what is in hand, gives back the rest
// and returns nil. An error means that there never was a first session.
//
// A session that ends by itself is followed by another, as soon as the broker
// lets it; not at once if it ended as soon as it was there, since the next may do
// the same. Run returns when every handler has, which takes at most a send and
// the record of it.
func (w *Worker) Run(ctx context.Context) error {
	defer w.all.Wait()
	s, err := w.Open(ctx)
	for wait := time.Duration(0); err == nil; s, err = w.reopen(ctx, wait) {
		opened := time.Now()
		w.latest.set(s)
		w.ready(ctx)
		w.work(ctx, s)
		if ctx.Err() != nil {
			return nil
		}
		w.say(event.Event{Kind: event.Disconnect, Queue: w.Queue, Reason: fmt.Sprintf("the session with RabbitMQ is over, what was in hand is redelivered: %v", s.Err())})
		if time.Since(opened) < longWait {
			wait = longer(wait)
		} else {
			wait = 0
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// longer returns the wait after that one.
func longer(wait time.Duration) time.Duration { return min(max(2*wait, firstWait), longWait) }

// reopen opens a session after the first, in a while, for as long as it takes.
// Reasons are said when they change.
func (w *Worker) reopen(ctx context.Context, wait time.Duration) (Session, error) {
	for said := ""; ; wait = longer(wait) {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		s, err := w.Open(ctx)
		if err == nil {
			return s, nil
		}
		if why := err.Error(); why != said && ctx.Err() == nil {
			if said != "" {
				w.note(why)
			}
			said = why
		}
	}
}

// ready says that the worker consumes, under which settings; none if Redis does
// not say.
func (w *Worker) ready(ctx context.Context) {
	e := event.Event{Kind: event.Ready, Channel: string(w.Channel), Queue: w.Queue, Slot: w.Slot}
	if w.AckEarly {
		e.Settings = &event.Settings{Ack: "early"}
	} else {
		ctx, cancel := context.WithTimeout(ctx, 2*idem.Timeout)
		defer cancel()
		if s, err := w.Settings(ctx); err == nil {
			e.Settings = &s
		}
	}
	w.say(e)
}

// say emits an event of this worker.
func (w *Worker) say(e event.Event) {
	e.Time, e.Source, e.PID = time.Now(), w.Name, w.pid
	if e.Channel == "" {
		e.Channel = string(w.Channel)
	}
	w.Emit(e)
}

// note says something that whoever watches should know.
func (w *Worker) note(text string) { w.say(event.Event{Kind: event.Note, Reason: text}) }

// nameOf returns the name of a worker of the same channel.
func (w *Worker) nameOf(o idem.Owner) string { return WorkerName(string(w.Channel), o.Slot) }

// WorkerName is what the worker in that slot of a channel is called.
func WorkerName(channel string, slot int) string { return fmt.Sprintf("%s-worker-%d", channel, slot) }
