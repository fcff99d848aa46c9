package broker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"notifylab/internal/notify"
	"notifylab/internal/servers/serverstest"
)

// subscribed makes queues of the test's own, and deletes them in the end.
func subscribed(t *testing.T, subs ...Subscription) (b bench, names []string) {
	t.Helper()
	url, _ := serverstest.URLs(t)
	b = bench{url, Topology{Names: Names{notify.Namespace(serverstest.Namespace(t))}}}
	for i := range subs {
		subs[i].Queue = b.Queue(subs[i].Queue)
		if subs[i].Exchange != "" {
			subs[i].Exchange = b.Queue(subs[i].Exchange)
		}
		names = append(names, subs[i].Queue)
	}
	if err := b.dial(t).Subscribe(soon(t), subs...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.dial(t).Delete(soon(t), names...); err != nil {
			t.Error(err)
		}
	})
	return b, names
}

// take takes n messages and returns their bodies.
func take(t *testing.T, k *Consumer, n int) (all []*notify.Delivery) {
	t.Helper()
	for range n {
		d, err := k.Next(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

func (b bench) consume(t *testing.T, queue string, prefetch int, auto bool) (*Consumer, *Conn) {
	t.Helper()
	c := b.dial(t)
	k, err := c.Consume(soon(t), queue, prefetch, auto)
	if err != nil {
		t.Fatal(err)
	}
	return k, c
}

// Every queue that is bound to an exchange gets a copy; the exchange goes with the last
// of them, and an event that no queue gets comes back.
func TestSubscribe(t *testing.T) {
	t.Parallel()
	b, names := subscribed(t, Subscription{Queue: "one", Exchange: "all"}, Subscription{Queue: "other", Exchange: "all"}, Subscription{Queue: "alone"})
	conn := b.dial(t)
	p := b.publisher(t, 10)
	announce := func() Fate {
		r, err := p.Start(soon(t), Message{Exchange: b.Queue("all"), ID: "a", Body: []byte("a")})
		if err != nil {
			t.Fatal(err)
		}
		fate, _ := r.Wait(soon(t))
		return fate
	}
	if fate := announce(); fate != Confirmed {
		t.Errorf("%v", fate)
	}
	for i, want := range []int{1, 1, 0} {
		b.awaitReady(t, names[i], want)
	}
	if err := conn.Subscribe(soon(t), Subscription{Queue: names[0], Exchange: b.Queue("all")}); err != nil {
		t.Errorf("once more: %v", err)
	}
	var conflict *ConflictError
	if err := conn.Subscribe(soon(t), Subscription{Queue: names[0], Single: true}); !errors.As(err, &conflict) {
		t.Errorf("with other arguments: %v", err)
	}
	if err := conn.Delete(soon(t), names[0], names[1]); err != nil {
		t.Fatal(err)
	}
	if fate := announce(); fate == Confirmed {
		t.Error("confirmed, with no queue and no exchange")
	}
	again := b.dial(t)
	if err := again.DeclareExchange(soon(t), b.Queue("all")); err != nil {
		t.Errorf("the exchange, anew: %v", err)
	}
	p = b.publisher(t, 10)
	if fate := announce(); fate != Returned {
		t.Errorf("bound to none: %v", fate)
	}
	ch := b.raw(t)
	if err := ch.ExchangeDelete(b.Queue("all"), false, false); err != nil {
		t.Error(err)
	}
}

// What becomes of messages when a consumer ends without a word is a matter of its acks.
func TestConsumer_acks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		auto  bool
		then  func(*Consumer, []*notify.Delivery) error
		again []string // handed over to the next one, redelivered
	}{
		{"none", false, func(*Consumer, []*notify.Delivery) error { return nil }, []string{"0", "1", "2"}},
		{"one", false, func(k *Consumer, d []*notify.Delivery) error { return k.AckNow(context.Background(), d[1]) }, []string{"0", "2"}},
		{"given back", false, func(k *Consumer, d []*notify.Delivery) error { return k.Back(d[0]) }, []string{"0", "1", "2"}},
		{"automatic", true, func(*Consumer, []*notify.Delivery) error { return nil }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, names := subscribed(t, Subscription{Queue: "q"})
			b.publish(t, b.publisher(t, 10), names[0], "0", "1", "2")
			k, conn := b.consume(t, names[0], 3, tt.auto)
			if err := tt.then(k, take(t, k, 3)); err != nil {
				t.Fatal(err)
			}
			conn.cut()
			// Before what is published last: it would go to who is not known to be gone.
			b.awaitNoConsumer(t, names[0])
			b.awaitReady(t, names[0], len(tt.again))
			last, _ := b.consume(t, names[0], 1, false)
			b.publish(t, b.publisher(t, 10), names[0], "last")
			var got []string
			for {
				d := take(t, last, 1)[0]
				if err := last.Ack(d); err != nil {
					t.Fatal(err)
				}
				if idOf(d) == "last" {
					break
				}
				if !d.Redelivered {
					t.Errorf("%s is not redelivered", idOf(d))
				}
				got = append(got, idOf(d))
			}
			slices.Sort(got)
			equal(t, "handed over again", got, tt.again)
		})
	}
}

// awaitNoConsumer waits until the broker knows of no consumer of a queue.
func (b bench) awaitNoConsumer(t *testing.T, queue string) {
	t.Helper()
	c := b.dial(t)
	for ctx := soon(t); ; {
		_, consumers, _, err := c.Ready(ctx, queue)
		if err == nil && consumers == 0 {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s has %d consumers, %v", queue, consumers, err)
		}
	}
}

// With a single active consumer the second one gets nothing while the first is there.
func TestConsumer_single(t *testing.T) {
	t.Parallel()
	b, names := subscribed(t, Subscription{Queue: "q", Single: true})
	first, conn := b.consume(t, names[0], 1, false)
	second, _ := b.consume(t, names[0], 1, false)
	b.publish(t, b.publisher(t, 10), names[0], "0", "1")
	take(t, first, 1)
	b.awaitReady(t, names[0], 1)
	conn.cut()
	if got := take(t, second, 1)[0]; idOf(got) != "0" || !got.Redelivered {
		t.Errorf("%s, redelivered %v", idOf(got), got.Redelivered)
	}
}

func TestConsumer_ends(t *testing.T) {
	t.Parallel()
	b, names := subscribed(t, Subscription{Queue: "q"})
	if _, err := b.dial(t).Consume(soon(t), b.Queue("none"), 1, false); err == nil {
		t.Error("consumes what is not there")
	}
	k, _ := b.consume(t, names[0], 1, false)
	cancelled := errors.New("enough")
	ctx, cancel := context.WithCancelCause(soon(t))
	time.AfterFunc(10*time.Millisecond, func() { cancel(cancelled) })
	if _, err := k.Next(ctx); !errors.Is(err, cancelled) {
		t.Errorf("%v", err)
	}
	if err := b.dial(t).Delete(soon(t), names[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Next(soon(t)); err == nil {
		t.Error("the queue is gone, and it goes on")
	}
	gone, conn := b.consume(t, b.another(t), 1, false)
	conn.cut()
	var unreachable *UnreachableError
	if _, err := gone.Next(soon(t)); !errors.As(err, &unreachable) {
		t.Errorf("%v", err)
	}
}

// another is one more queue.
func (b bench) another(t *testing.T) string {
	t.Helper()
	name := b.Queue("another")
	if err := b.dial(t).Subscribe(soon(t), Subscription{Queue: name}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.dial(t).Delete(soon(t), name) })
	return name
}
