package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
)

// What tests do to the servers and look at there, beside the program.

func patience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// connection is one of the test's own to the corner's RabbitMQ.
func (c corner) connection() *broker.Conn {
	c.t.Helper()
	conn, err := broker.Dial(patience(c.t), broker.Config{URL: c.amqp, Name: "test", Heartbeat: 10 * time.Second, Timeout: limit})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	return conn
}

func (c corner) names() broker.Names { return broker.Names{Namespace: notify.Namespace(c.ns)} }

// topology is the queues of the corner's workers with no flags.
func (c corner) topology(channels ...notify.Channel) broker.Topology {
	delays := []time.Duration{500 * time.Millisecond, time.Second}
	return broker.Topology{Names: c.names(), Channels: channels, Delays: delays, Type: broker.Quorum}
}

// publish puts bodies on the work queue of push.
func (c corner) publish(bodies ...[]byte) {
	c.t.Helper()
	ctx, conn := patience(c.t), c.connection()
	if err := conn.Declare(ctx, c.topology(notify.Push)); err != nil {
		c.t.Fatal(err)
	}
	publisher, err := conn.Publisher(ctx, len(bodies))
	if err != nil {
		c.t.Fatal(err)
	}
	var receipts []*broker.Receipt
	for _, body := range bodies {
		r, err := publisher.Start(ctx, broker.Message{Queue: c.names().Work(notify.Push), ID: "raw", Body: body})
		if err != nil {
			c.t.Fatal(err)
		}
		receipts = append(receipts, r)
	}
	for _, r := range receipts {
		if fate, err := r.Wait(ctx); fate != broker.Confirmed {
			c.t.Fatal(fate, err)
		}
	}
}

// publishN puts n notifications on the work queue of push.
func (c corner) publishN(n int) {
	c.t.Helper()
	var bodies [][]byte
	for i := range n {
		bodies = append(bodies, notify.Encode(notify.Notification{ID: fmt.Sprintf("n%d", i+1), User: "7", Text: "hello"}))
	}
	c.publish(bodies...)
}

// ready is how many messages wait in a queue; -1: there is none.
func (c corner) ready(queue string) int {
	c.t.Helper()
	conn := c.connection()
	defer conn.Close()
	n, _, ok, err := conn.Ready(patience(c.t), queue)
	if err != nil {
		c.t.Fatal(err)
	}
	if !ok {
		return -1
	}
	return n
}

// wantReady waits until so many messages wait in a queue. One look may show none: when
// a quorum queue does not answer at once the broker says 0.
func (c corner) wantReady(queue string, want int) {
	c.t.Helper()
	conn := c.connection()
	defer conn.Close()
	eventually(c.t, queue, func() string {
		if n, _, ok, err := conn.Ready(patience(c.t), queue); n != want || !ok || err != nil {
			return fmt.Sprintf("%d messages, want %d; there: %t, %v", n, want, ok, err)
		}
		return ""
	})
}

// consume takes n deliveries of a channel and leaves them there.
func (c corner) consume(channel notify.Channel, n int) []*notify.Delivery {
	c.t.Helper()
	ctx := patience(c.t)
	s, err := broker.Open(ctx, broker.SessionConfig{
		Config:   broker.Config{URL: c.amqp, Name: "test", Heartbeat: 10 * time.Second, Timeout: limit},
		Topology: c.topology(channel), Prefetch: n, PublishTimeout: limit,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	defer s.Close(ctx)
	var found []*notify.Delivery
	for len(found) < n {
		select {
		case d, ok := <-s.Deliveries():
			if !ok {
				c.t.Fatal(s.Err())
			}
			found = append(found, d)
		case <-ctx.Done():
			c.t.Fatalf("%d of %d deliveries on %s", len(found), n, channel)
		}
	}
	return found
}

// wantClean expects that nothing is left of the namespaces that begin with the
// corner's: no key, and of those that are named in lines no queue.
func (c corner) wantClean(lines []string) {
	c.t.Helper()
	client, err := idem.Dial(c.redis, 2)
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	keys, err := client.Keys(patience(c.t), c.ns+"*").Result()
	if err != nil || len(keys) > 0 {
		c.t.Errorf("keys are left: %v, %v", keys, err)
	}
	for _, line := range lines {
		_, name, found := strings.Cut(line, ", namespace ")
		if !found {
			continue
		}
		run := corner{t: c.t, amqp: c.amqp, ns: name}
		for _, q := range run.topology(notify.Channels()...).QueueNames() {
			if n := run.ready(q); n >= 0 {
				c.t.Errorf("%s is left", q)
			}
		}
	}
}

// gate is a provider whose calls wait until it is opened.
type gate struct {
	url  string
	open chan struct{}
}

func newGate(t *testing.T) gate {
	t.Helper()
	g := gate{open: make(chan struct{})}
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
		case <-g.open:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(over); server.Close() })
	g.url = server.URL
	return g
}
