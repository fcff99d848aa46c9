package broker

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/notify"
)

func TestTopology_IsExactlyThis(t *testing.T) {
	t.Parallel()
	quorum := Topology{
		Names: Names{"k7f3"}, Channels: []notify.Channel{"push", "email"}, Type: Quorum,
		Delays: []time.Duration{500 * time.Millisecond, time.Second, time.Second}, Expires: 10 * time.Minute,
	}
	want := []queue{}
	for _, c := range []string{"push", "email"} {
		to := func(queue string) amqp.Table {
			return amqp.Table{
				"x-queue-type": "quorum", "x-expires": int64(600_000),
				"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "k7f3." + queue,
				"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
			}
		}
		work, short, long := to(c+".dlq"), to("notify."+c), to("notify."+c)
		work["x-delivery-limit"] = int64(100)
		short["x-message-ttl"], long["x-message-ttl"] = int64(500), int64(1000)
		want = append(want,
			queue{"k7f3." + c + ".dlq", amqp.Table{"x-queue-type": "quorum", "x-expires": int64(600_000), "x-delivery-limit": int64(2147483647)}},
			queue{"k7f3.notify." + c, work},
			queue{"k7f3.notify." + c + ".retry.500ms", short},
			queue{"k7f3.notify." + c + ".retry.1s", long})
	}
	if got := quorum.queues(); !reflect.DeepEqual(got, want) {
		t.Errorf("quorum:\n got %v\nwant %v", got, want)
	}

	classic := Topology{Channels: []notify.Channel{"push"}, Type: Classic, Delays: []time.Duration{time.Second}}
	want = []queue{
		{"push.dlq", amqp.Table{"x-queue-type": "classic"}},
		{"notify.push", amqp.Table{"x-queue-type": "classic", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "push.dlq"}},
		{"notify.push.retry.1s", amqp.Table{"x-queue-type": "classic", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "notify.push", "x-message-ttl": int64(1000)}},
	}
	if got := classic.queues(); !reflect.DeepEqual(got, want) {
		t.Errorf("classic:\n got %v\nwant %v", got, want)
	}
	equal(t, "names", classic.QueueNames(), []string{"push.dlq", "notify.push", "notify.push.retry.1s"})
}

func TestConn_DeclareTwiceIsNoConflict(t *testing.T) {
	t.Parallel()
	for _, kind := range []QueueType{Quorum, Classic} {
		for _, expires := range []time.Duration{0, 10 * time.Minute} {
			b := newBench(t, func(tp *Topology) { tp.Type, tp.Expires, tp.Channels = kind, expires, notify.Channels() })
			if err := b.dial(t).Declare(soon(t), b.Topology); err != nil {
				t.Errorf("%s, expires %v: %v", kind, expires, err)
			}
		}
	}
}

// celery/kombu#824
func TestConn_DeclareNamesAConflictAndChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.dial(t)
	with := func(change func(amqp.Table)) amqp.Table {
		args := b.workArgs(notify.Push)
		change(args)
		return args
	}
	retry := b.Retry(notify.Push, b.Delays[0])
	for _, test := range []struct {
		durable bool
		queue   string
		args    amqp.Table
		want    ConflictError
	}{
		{false, b.work(), nil, ConflictError{b.work(), "durable", "true", "false"}},
		{true, b.work(), nil, ConflictError{b.work(), "x-dead-letter-exchange", `""`, "none"}},
		{true, b.work(), with(func(a amqp.Table) {
			a["x-queue-type"] = "classic"
			delete(a, "x-delivery-limit")
			delete(a, "x-dead-letter-strategy")
		}), ConflictError{b.work(), "x-queue-type", "quorum", "classic"}},
		{true, b.work(), with(func(a amqp.Table) { delete(a, "x-delivery-limit") }), ConflictError{b.work(), "x-delivery-limit", "100", "none"}},
		{true, b.work(), with(func(a amqp.Table) { a["x-delivery-limit"] = int64(5) }), ConflictError{b.work(), "x-delivery-limit", "100", "5"}},
		{true, b.work(), with(func(a amqp.Table) { a["x-expires"] = int64(600_000) }), ConflictError{b.work(), "x-expires", "none", "600000"}},
		{true, retry, b.retryArgs(notify.Push, time.Second), ConflictError{retry, "x-message-ttl", "500", "1000"}},
	} {
		if err := c.Delete(soon(t), test.queue); err != nil {
			t.Fatal(err)
		}
		raw := b.raw(t) // a new one: 3.10 ends a channel that knew the queue as another type
		if _, err := raw.QueueDeclare(test.queue, test.durable, false, false, false, test.args); err != nil {
			t.Fatal(err)
		}
		b.putRaw(t, test.queue, amqp.Publishing{Body: []byte("still there")})
		err := c.Declare(soon(t), b.Topology)
		var got *ConflictError
		if !errors.As(err, &got) || *got != test.want {
			t.Errorf("want %+v, got %v", test.want, err)
		}
		if d, ok, err := raw.Get(test.queue, true); test.queue == b.work() && (!ok || err != nil || string(d.Body) != "still there") {
			t.Errorf("%s lost its message: %v", test.queue, err)
		}
		if err := c.Delete(soon(t), test.queue); err != nil {
			t.Fatal(err)
		}
		if err := c.Declare(soon(t), b.Topology); err != nil {
			t.Fatal(err)
		}
	}
}

// The last resort, in either type: what a queue refuses goes to the dead letters.
func TestTopology_DeadLettersOfAClassicQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(tp *Topology) { tp.Type = Classic })
	b.fill(t, 2)
	s := b.open(t, 2)
	all := nextN(t, s, 2)
	if err := s.Retry(soon(t), all[0], b.Delays[0], failure); err != nil {
		t.Fatal(err)
	}
	s.Ack(all[0])
	if err := s.Park(soon(t), all[1], failure); err != nil {
		t.Fatal(err)
	}
	s.Ack(all[1])
	if d := next(t, s); idOf(d) != "m1" || d.Attempts != 1 {
		t.Errorf("got %+v", d)
	}
	if d := b.getRaw(t, b.deadLetters()); string(d.Body) != "m2" {
		t.Errorf("got %s", d.Body)
	}
}

func TestTopology_DeadLettersSurviveBeingLookedAt(t *testing.T) {
	t.Parallel()
	const letters, looks = 6, 30
	for _, kind := range []QueueType{Quorum, Classic} {
		b := newBench(t, func(tp *Topology) { tp.Type = kind })
		var want []string
		for i := range letters {
			want = append(want, fmt.Sprint(i))
			b.putRaw(t, b.deadLetters(), amqp.Publishing{Body: []byte(want[i]), DeliveryMode: amqp.Persistent})
		}
		ch := b.raw(t)
		for range looks {
			var got []string
			for {
				d, ok, err := ch.Get(b.deadLetters(), false)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				got = append(got, string(d.Body))
			}
			equal(t, string(kind), got, want)
			if err := ch.Nack(0, true, true); err != nil {
				t.Fatal(err)
			}
			b.awaitReady(t, b.deadLetters(), letters)
		}
	}
}
