package main

import (
	"context"
	"errors"
	"os"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// production is one run of produce: events are published in one goroutine and
// their fates awaited, in order, in another.
type production struct {
	batch
	names     broker.Names
	publisher *broker.Publisher
	timeout   time.Duration // for a confirm
	flights   chan flight
	say       func(event.Event)
	progress  func()
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
	t := tally{Kind: "produced"}
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		for f := range p.flights {
			p.collect(f, &t)
		}
	}()
	p.publish(ctx)
	close(p.flights)
	<-collected
	t.ElapsedMS = time.Since(began).Milliseconds()
	return t
}

func (p *production) publish(ctx context.Context) {
	began := time.Now()
	for i := 1; i <= p.count; i++ {
		if p.every > 0 && !until(ctx, began.Add(time.Duration(i-1)*p.every)) || ctx.Err() != nil {
			return
		}
		f := flight{n: p.nth(i)}
		starting, cancel := context.WithTimeout(ctx, p.timeout)
		var err error
		for _, c := range p.channels {
			var r *broker.Receipt
			if r, err = p.publisher.Start(starting, p.message(p.names, c, f.n)); err != nil {
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

func (p *production) collect(f flight, t *tally) {
	ctx, cancel := context.WithDeadline(context.Background(), f.deadline)
	defer cancel()
	t.Queued++
	for i, r := range f.receipts {
		c := p.channels[i]
		fate, why := r.Wait(ctx)
		e := event.Event{Time: time.Now(), Source: "producer", PID: os.Getpid(), ID: f.n.ID, Channel: string(c), User: f.n.User, Queue: p.names.Work(c)}
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
		p.say(e)
	}
	p.progress()
}
