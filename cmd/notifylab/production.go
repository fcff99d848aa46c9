package main

import (
	"context"
	"errors"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// production is one run of produce: events are published in one goroutine and
// their fates awaited, in order, in another.
type production struct {
	batch
	queues    []string // by channel, as in the batch
	publisher *broker.Publisher
	timeout   time.Duration // for a confirm
	flights   chan flight
	pid       int
	tell      func([]event.Event)
	all       bool // tell of each message, and not only of what went wrong
	progress  func(events int)
	err       error // why it stopped early
}

// A flight is one event on its way.
type flight struct {
	n        notify.Notification
	receipts []*broker.Receipt // by channel, as in the batch
	deadline time.Time
}

func (p *production) run(ctx context.Context) tally {
	began := time.Now()
	collected := make(chan tally)
	go func() { collected <- p.collect() }()
	p.publish(ctx)
	close(p.flights)
	t := <-collected
	t.ElapsedMS = time.Since(began).Milliseconds()
	return t
}

func (p *production) publish(ctx context.Context) {
	began := time.Now()
	for i := 1; i <= p.count; i++ {
		if p.every > 0 && !until(ctx, began.Add(time.Duration(i-1)*p.every)) || ctx.Err() != nil {
			return
		}
		f := flight{n: p.nth(i), receipts: make([]*broker.Receipt, 0, len(p.queues))}
		m := p.message(f.n)
		starting, cancel := answerWithin(ctx, p.timeout)
		var err error
		for _, m.Queue = range p.queues {
			var r *broker.Receipt
			if r, err = p.publisher.Start(starting, m); err != nil {
				break
			}
			f.receipts = append(f.receipts, r)
		}
		cancel()
		f.deadline = time.Now().Add(p.timeout)
		if len(f.receipts) > 0 {
			p.flights <- f
		}
		if err != nil {
			if why := p.publisher.Blocked(); why != "" {
				err = errors.New(why)
			}
			p.err = err
			return
		}
	}
}

// until waits for a moment; false if ctx ended first.
func until(ctx context.Context, at time.Time) bool {
	wait := time.Until(at)
	if wait <= 0 {
		return true
	}
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}

// mostTold is how many events are told of at a time.
const mostTold = 64

// collect counts what becomes of the flights and tells of it: of all that is known
// at once, before it waits for more.
func (p *production) collect() tally {
	t := tally{Kind: "produced"}
	told, progress := make([]event.Event, 0, mostTold), 0
	tell := func() {
		if progress == 0 && len(told) == 0 {
			return
		}
		p.tell(told)
		p.progress(progress)
		told, progress = told[:0], 0
	}
	for f := range p.flights {
		t.Queued++
		for i, r := range f.receipts {
			if len(told) == mostTold || !r.Answered() {
				tell()
			}
			if e := p.fate(f, i, &t); p.all || e.Kind != event.Queued {
				told = append(told, e)
			}
		}
		progress++
		if len(p.flights) == 0 {
			tell()
		}
	}
	return t
}

// fate waits for what becomes of a flight's i-th message.
func (p *production) fate(f flight, i int, t *tally) event.Event {
	ctx := context.Background()
	if r := f.receipts[i]; !r.Answered() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, f.deadline)
		defer cancel()
	}
	fate, why := f.receipts[i].Wait(ctx)
	e := event.Event{
		Time: time.Now(), Source: "producer", PID: p.pid, ID: f.n.ID, Channel: string(p.channels[i]), User: f.n.User, Queue: p.queues[i],
	}
	switch fate {
	case broker.Confirmed:
		t.Confirmed++
		e.Kind, e.State = event.Queued, "confirmed"
	case broker.Returned:
		t.Returned++
		e.Kind = event.Returned
	default:
		t.Unknown++
		e.Kind = event.Unconfirmed
	}
	if why != nil {
		e.Reason = why.Error()
	}
	return e
}
