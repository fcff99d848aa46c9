package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/notify"
	"notifylab/internal/servers/serverstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.Main(m)) }

const limit = 2 * time.Minute // never passes when all is well

// soon returns a context that ends only when something is wrong.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// A bench is one broker with queues of the test's own.
type bench struct {
	url string
	Topology
}

// newBench declares a topology in a namespace of its own on the shared broker,
// and deletes it in the end.
func newBench(t *testing.T, change ...func(*Topology)) bench {
	t.Helper()
	url, _ := serverstest.URLs(t)
	return benchAt(t, url, change...)
}

func benchAt(t *testing.T, url string, change ...func(*Topology)) bench {
	t.Helper()
	b := bench{url, Topology{
		Names:    Names{notify.Namespace(serverstest.Namespace(t))},
		Channels: []notify.Channel{notify.Push},
		Delays:   []time.Duration{500 * time.Millisecond},
		Type:     Quorum,
	}}
	for _, c := range change {
		c(&b.Topology)
	}
	if err := b.dial(t).Declare(soon(t), b.Topology); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.dial(t).Delete(soon(t), b.QueueNames()...); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b bench) work() string        { return b.Work(notify.Push) }
func (b bench) deadLetters() string { return b.DeadLetters(notify.Push) }

func (b bench) config() Config {
	return Config{URL: b.url, Name: "test", Heartbeat: 10 * time.Second, Timeout: limit}
}

func (b bench) dial(t *testing.T) *Conn {
	t.Helper()
	c, err := Dial(soon(t), b.config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (b bench) publisher(t *testing.T, window int) *Publisher {
	t.Helper()
	p, err := b.dial(t).Publisher(context.Background(), window)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (b bench) sessionConfig(prefetch int) SessionConfig {
	return SessionConfig{Config: b.config(), Topology: b.Topology, Prefetch: prefetch, PublishTimeout: limit}
}

func (b bench) open(t *testing.T, prefetch int) *Session {
	t.Helper()
	return openWith(t, b.sessionConfig(prefetch))
}

func openWith(t *testing.T, cfg SessionConfig) *Session {
	t.Helper()
	s, err := Open(soon(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(soon(t)) })
	return s
}

// raw returns a channel of the client library, for what this package does not
// do.
func (b bench) raw(t *testing.T) *amqp.Channel {
	t.Helper()
	c, err := amqp.Dial(b.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// fill puts n messages into the work queue: m1, m2 and so on.
func (b bench) fill(t *testing.T, n int) (ids []string) {
	t.Helper()
	p := b.publisher(t, n)
	for i := range n {
		ids = append(ids, fmt.Sprint("m", i+1))
	}
	for _, fate := range b.publish(t, p, b.work(), ids...) {
		if fate != Confirmed {
			t.Fatal("a message of the test's own is", fate)
		}
	}
	return ids
}

// publish publishes messages with these ids, all in flight at once.
func (b bench) publish(t *testing.T, p *Publisher, queue string, ids ...string) (fates []Fate) {
	t.Helper()
	var receipts []*Receipt
	for _, id := range ids {
		r, err := p.Start(soon(t), Message{Queue: queue, ID: id, Body: []byte(id)})
		if err != nil {
			t.Fatal(err)
		}
		receipts = append(receipts, r)
	}
	for _, r := range receipts {
		fate, _ := r.Wait(soon(t))
		fates = append(fates, fate)
	}
	return fates
}

// next returns the next delivery.
func next(t *testing.T, s *Session) *notify.Delivery {
	t.Helper()
	select {
	case d, ok := <-s.Deliveries():
		if !ok {
			t.Fatal("no more deliveries: ", s.Err())
		}
		return d
	case <-time.After(limit):
		t.Fatal("no delivery")
	}
	return nil
}

// nextN returns the next n deliveries.
func nextN(t *testing.T, s *Session, n int) (all []*notify.Delivery) {
	t.Helper()
	for range n {
		all = append(all, next(t, s))
	}
	return all
}

// idOf is what the message carries: bodies of fill are ids.
func idOf(d *notify.Delivery) string { return string(d.Body) }

func idsOf(all []*notify.Delivery) (ids []string) {
	for _, d := range all {
		ids = append(ids, idOf(d))
	}
	return ids
}

// awaitOver returns why the session is over.
func awaitOver(t *testing.T, s *Session) error {
	t.Helper()
	select {
	case <-s.Over():
		return s.Err()
	case <-time.After(limit):
		t.Fatal("the session goes on")
	}
	return nil
}

// awaitReady waits until that many messages are ready in a queue.
func (b bench) awaitReady(t *testing.T, queue string, want int) {
	t.Helper()
	c, ctx := b.dial(t), soon(t)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got, _, _, err := c.Ready(ctx, queue)
		if err == nil && got == want {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: want %d ready, got %d, %v", queue, want, got, err)
		}
	}
}

// equal compares lists and prints both.
func equal[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// wantIs checks an error's kind.
func wantIs(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("want %v, got %v", kind, err)
	}
}

// relay is a way to the broker at addr through l, until cut is closed and l is.
func relay(t *testing.T, l net.Listener, addr string, cut <-chan struct{}) {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		near, err := l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", addr)
		if err != nil {
			t.Error(err)
			near.Close()
			return
		}
		running.Go(func() {
			<-cut
			near.Close()
			far.Close()
		})
		running.Go(func() { _, _ = io.Copy(far, near) })
		running.Go(func() { _, _ = io.Copy(near, far) })
	}
}
