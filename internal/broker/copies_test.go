package broker

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/notify"
)

var failure = notify.Failure{
	Reason: "refused", Error: "503 from the provider", Attempts: 1, Worker: "push-worker-1",
	At: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600)),
}

const failedAt = "2026-01-02T02:04:05.000000006Z"

// putRaw publishes a message as somebody else's client would, and returns when
// it is confirmed.
func (b bench) putRaw(t *testing.T, queue string, m amqp.Publishing) {
	t.Helper()
	ch := b.raw(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	c, err := ch.PublishWithDeferredConfirm("", queue, false, false, m)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := c.WaitContext(soon(t)); !ok {
		t.Fatal("not confirmed: ", err)
	}
}

// getRaw takes the next message of a queue out of it, when it comes.
func (b bench) getRaw(t *testing.T, queue string) amqp.Delivery {
	t.Helper()
	ch := b.raw(t)
	if err := ch.Qos(1, 0, false); err != nil {
		t.Fatal(err)
	}
	in, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close() // takes no more
	select {
	case d, ok := <-in:
		if !ok {
			t.Fatal("cancelled: ", queue)
		}
		if err := d.Ack(false); err != nil {
			t.Fatal(err)
		}
		return d
	case <-time.After(limit):
		t.Fatal("nothing in ", queue)
	}
	return amqp.Delivery{}
}

// foreign is a message with all that one can have.
func foreign() amqp.Publishing {
	return amqp.Publishing{
		Headers: amqp.Table{
			headerCrash: "before-ack", "x-mine": int32(7), "list": []any{"a", int64(1), nil},
			"table": amqp.Table{"deep": true}, "bytes": []byte{0xff, 0}, "BCC": []any{}, "CC": []any{},
		},
		ContentType: "application/json", ContentEncoding: "identity", DeliveryMode: amqp.Transient, Priority: 3,
		CorrelationId: "c", ReplyTo: "r", Expiration: "3600000", MessageId: "id", Timestamp: time.Unix(1700000000, 0),
		Type: "t", UserId: "guest", AppId: "a", Body: []byte("\x00\xff\xfe not UTF-8 \xc3("),
	}
}

// properties are what a copy keeps; headers are looked at apart.
func properties(d amqp.Delivery) amqp.Publishing {
	return amqp.Publishing{
		ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode, Priority: d.Priority,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageId: d.MessageId,
		Timestamp: d.Timestamp, Type: d.Type, UserId: d.UserId, AppId: d.AppId, Body: d.Body,
	}
}

func TestSession_ACopyIsTheMessageAndWhyItWasMade(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.putRaw(t, b.work(), foreign())
	s := b.open(t, 1)
	d := next(t, s)
	if d.Crash != "before-ack" || d.Attempts != 0 || d.Redelivered || d.Count != 0 {
		t.Errorf("got %+v", d)
	}
	wantProperties := foreign()
	wantProperties.Headers, wantProperties.Expiration, wantProperties.UserId = nil, "", ""
	wantProperties.DeliveryMode = amqp.Persistent
	if err := s.Park(soon(t), d, failure); err != nil {
		t.Fatal(err)
	}
	if got := properties(b.getRaw(t, b.deadLetters())); !reflect.DeepEqual(got, wantProperties) {
		t.Errorf("a copy:\n got %+v\nwant %+v", got, wantProperties)
	}

	began := time.Now()
	if err := s.Retry(soon(t), d, 500*time.Millisecond, failure); err != nil {
		t.Fatal(err)
	}
	s.Ack(d)
	d = next(t, s)
	if took := time.Since(began); took < 490*time.Millisecond || took > 10*time.Second {
		t.Errorf("a retry in 500ms came after %v", took)
	}
	if d.Attempts != 1 || d.Redelivered || d.Count != 0 || d.Crash != "before-ack" {
		t.Errorf("the copy is %+v", d)
	}
	again := failure
	again.Attempts, again.Error, again.Reason, again.Worker = 2, "no answer", "unknown", "push-worker-2"
	if err := s.Park(soon(t), d, again); err != nil {
		t.Fatal(err)
	}
	if err := s.AckNow(soon(t), d); err != nil {
		t.Fatal(err)
	}

	got := b.getRaw(t, b.deadLetters())
	if !reflect.DeepEqual(properties(got), wantProperties) {
		t.Errorf("a copy of a copy:\n got %+v\nwant %+v", properties(got), wantProperties)
	}
	want := foreign().Headers
	delete(want, "CC")
	delete(want, "BCC")
	maps.Copy(want, amqp.Table{
		headerAttempts: int64(2), headerReason: "unknown", headerFirst: "503 from the provider", headerLast: "no answer",
		headerTime: failedAt, headerWorker: "push-worker-2", headerSerial: "3",
		headerHistory: []any{
			failedAt + " push-worker-1 attempt 1 refused: 503 from the provider",
			failedAt + " push-worker-2 attempt 2 unknown: no answer",
		},
	})
	if !reflect.DeepEqual(got.Headers, want) {
		t.Errorf("headers:\n got %v\nwant %v", got.Headers, want)
	}
	b.awaitReady(t, b.work(), 0)
}

// What RabbitMQ 3.10 has parked by itself and what is then replayed by hand must
// still find its way through a retry queue.
func TestSession_ACopyOfWhatTheBrokerParkedArrives(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(t, 1)
	ch := b.raw(t)
	for range DeliveryLimit + 1 {
		if d, ok, err := ch.Get(b.work(), false); !ok || err != nil {
			t.Fatal(ok, err)
		} else if err := d.Nack(false, true); err != nil {
			t.Fatal(err)
		}
	}
	parked := b.getRaw(t, b.deadLetters())
	if parked.Headers["x-first-death-reason"] != "delivery_limit" {
		t.Fatalf("parked with %v", parked.Headers)
	}
	b.putRaw(t, b.work(), clean(parked))
	s := b.open(t, 1)
	for attempt := range 2 {
		d := next(t, s)
		f := failure
		f.Attempts = attempt + 1
		if err := s.Retry(soon(t), d, 500*time.Millisecond, f); err != nil {
			t.Fatal(err)
		}
		s.Ack(d)
	}
	if d := next(t, s); d.Attempts != 2 || idOf(d) != "m1" {
		t.Errorf("got %+v", d)
	}
}

// runmq/queue#19
func TestSession_ACopyThatCannotBeMadeLeavesTheSession(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(t, 1)
	s := b.open(t, 1)
	d := next(t, s)
	c, raw := b.dial(t), b.raw(t)
	if err := c.Delete(soon(t), b.deadLetters()); err != nil {
		t.Fatal(err)
	}
	wantIs(t, s.Park(soon(t), d, failure), notify.ErrReturned)
	wantIs(t, s.Retry(soon(t), d, time.Hour, failure), notify.ErrReturned)

	if _, err := raw.QueueDeclare(b.deadLetters(), true, false, false, false, amqp.Table{"x-max-length": 0, "x-overflow": "reject-publish"}); err != nil {
		t.Fatal(err)
	}
	wantIs(t, s.Park(soon(t), d, failure), notify.ErrNacked)
	if err := c.Delete(soon(t), b.deadLetters()); err != nil {
		t.Fatal(err)
	}
	if err := c.Declare(soon(t), b.Topology); err != nil {
		t.Fatal(err)
	}
	if err := s.Park(soon(t), d, failure); err != nil {
		t.Error(err)
	}
	if err := s.AckNow(soon(t), d); err != nil {
		t.Error(err, s.Err())
	}
}

func TestSession_TakesTheBrokersCount(t *testing.T) {
	t.Parallel()
	for _, kind := range []QueueType{Quorum, Classic} {
		b := newBench(t, func(tp *Topology) { tp.Type = kind })
		b.fill(t, 1)
		for count := range 3 {
			s := b.open(t, 1)
			d := next(t, s)
			want := notify.Delivery{Redelivered: count > 0, Count: count, Counted: kind == Quorum && count > 0}
			if kind == Classic {
				want.Count = min(count, 1)
			}
			if got := (notify.Delivery{Redelivered: d.Redelivered, Count: d.Count, Counted: d.Counted}); !reflect.DeepEqual(got, want) {
				t.Errorf("%s, hand-over %d: got %+v, want %+v", kind, count+1, got, want)
			}
			s.Close(soon(t))
		}
	}
}

func TestFailed_IsBounded(t *testing.T) {
	t.Parallel()
	var d amqp.Delivery
	for i := range 3 * maxHistory {
		f := failure
		f.Attempts, f.Error = i, fmt.Sprint(i, "\xff", strings.Repeat("é", 10_000))
		p := failed(d, f)
		d = amqp.Delivery{Headers: p.Headers}
	}
	history, _ := d.Headers[headerHistory].([]any)
	first, _ := d.Headers[headerFirst].(string)
	last, _ := d.Headers[headerLast].(string)
	if len(history) != maxHistory || !strings.HasPrefix(first, "0?é") || !strings.HasPrefix(last, "59?é") || len(last) > maxError+len("…") {
		t.Errorf("%d lines; first %.10q, last %.10q of %d bytes", len(history), first, last, len(last))
	}
	for i, line := range history {
		if want := fmt.Sprint("attempt ", 2*maxHistory+i); !strings.Contains(fmt.Sprint(line), want) {
			t.Errorf("line %d: want %s, got %.80s", i, want, line)
		}
	}
}

func TestReceived_TrustsNoHeader(t *testing.T) {
	t.Parallel()
	for _, h := range []struct {
		value any
		want  int
	}{
		{int64(2), 2}, {int32(2), 2}, {int16(2), 2}, {int8(2), 2}, {byte(2), 2}, {uint16(2), 2}, {uint32(2), 2},
		{int64(-1), 0}, {"2", 0}, {nil, 0}, {amqp.Table{}, 0}, {int64(1) << 62, 1<<31 - 1},
	} {
		if got := received(amqp.Delivery{Headers: amqp.Table{headerAttempts: h.value, headerCrash: 5}}); got.Attempts != h.want || got.Crash != "" {
			t.Errorf("%T %v: got %+v", h.value, h.value, got)
		}
	}
}

func TestSession_CopiesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.open(t, 1)
	if err := s.Park(soon(t), &notify.Delivery{}, failure); err == nil || errors.Is(err, notify.ErrSessionOver) {
		t.Errorf("got %v", err)
	}
}
