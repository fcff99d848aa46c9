package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/notify"
)

const (
	soakWindow     = 4000            // messages in flight
	confirmTimeout = 5 * time.Second // as produce has it
	farBehind      = time.Second     // what is later than that is left out
)

// A crossing is one message on its way to the broker.
type crossing struct {
	n        int
	channel  notify.Channel
	receipt  *broker.Receipt
	deadline time.Time
}

// traffic publishes an event each so often until ctx ends, and returns when the
// fate of each message is known. While the broker is away there is none: what was
// not published is nobody's.
func (s *soaking) traffic(ctx context.Context) error {
	crossings := make(chan crossing, soakWindow)
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		flowing := sync.OnceFunc(func() { close(s.flows) })
		for c := range crossings {
			if s.collect(c) == broker.Confirmed {
				flowing()
			}
		}
	}()
	err := s.publishSteadily(ctx, crossings)
	close(crossings)
	<-collected
	return err
}

func (s *soaking) publishSteadily(ctx context.Context, crossings chan<- crossing) error {
	conn, publisher, err := s.producer(ctx)
	if err != nil {
		return err
	}
	defer func() { conn.Close() }()
	next := time.NewTimer(0)
	defer next.Stop()
	at := time.Now()
	for n := 1; ; n++ {
		select {
		case <-next.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if publisher.Err() != nil {
			again, p, err := s.producer(ctx)
			if err != nil {
				return err
			}
			conn.Close()
			conn, publisher = again, p
		}
		for _, c := range s.topology.Channels {
			s.offerNth(ctx, publisher, n, c, crossings)
		}
		if at = at.Add(s.plan.Every); time.Since(at) > farBehind {
			at = time.Now()
		}
		next.Reset(time.Until(at))
	}
}

// offerNth publishes the n-th notification on a channel. An error of the publisher
// means that nothing was published.
func (s *soaking) offerNth(ctx context.Context, p *broker.Publisher, n int, c notify.Channel, crossings chan<- crossing) {
	m := notify.Notification{ID: s.id(n), User: fmt.Sprint(n % 100), Text: "your pass expires soon"}
	s.tally.offered(n, c)
	limited, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	r, err := p.Start(limited, broker.NewMessage(s.topology.Names, c, m, ""))
	if err != nil {
		return
	}
	s.tally.published()
	crossings <- crossing{n, c, r, time.Now().Add(confirmTimeout)}
}

// collect waits for what became of a message.
func (s *soaking) collect(c crossing) broker.Fate {
	ctx, cancel := context.WithDeadline(context.Background(), c.deadline)
	defer cancel()
	fate, _ := c.receipt.Wait(ctx) // of what is unknown nobody knows more
	s.tally.answered(c.n, c.channel, fate)
	return fate
}

// producer connects the producer, for as long as it takes.
func (s *soaking) producer(ctx context.Context) (*broker.Conn, *broker.Publisher, error) {
	for {
		conn, err := broker.Dial(ctx, broker.Config{URL: s.AMQPURL, Name: "notifylab soak producer", Heartbeat: 10 * time.Second, Timeout: confirmTimeout})
		if err == nil {
			var p *broker.Publisher
			if p, err = conn.Publisher(context.WithoutCancel(ctx), soakWindow); err == nil {
				return conn, p, nil
			}
			conn.Close()
		}
		var away *broker.UnreachableError
		if ctx.Err() == nil && !errors.As(err, &away) && !errors.Is(err, broker.ErrAccessRefused) { // of which a broker that dies in the handshake can't be told
			return nil, nil, err
		}
		select {
		case <-time.After(10 * between):
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}
