package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/notify"
)

// letters takes a turn, on a connection of its own.
func (b bench) letters(t *testing.T) (*DeadLetters, *Conn) {
	t.Helper()
	c := b.dial(t)
	d, err := c.DeadLetters(soon(t), b.Names, notify.Push)
	if err != nil {
		t.Fatal(err)
	}
	d.Dial = func(ctx context.Context) (*Conn, error) { return Dial(ctx, b.config()) }
	return d, c
}

// look lists the dead letters' ids.
func (b bench) look(t *testing.T) []string {
	t.Helper()
	d, _ := b.letters(t)
	return lookOn(t, d)
}

func lookOn(t *testing.T, d *DeadLetters) (ids []string) {
	t.Helper()
	all := func(l DeadLetter) (Choice, error) { ids = append(ids, l.ID); return Leave, nil }
	if err := errors.Join(d.Each(soon(t), all, nil), d.Close()); err != nil {
		t.Fatal(err)
	}
	return ids
}

// park puts n messages among the dead letters: d1, d2 and so on.
func (b bench) park(t *testing.T, n int) (ids []string) {
	t.Helper()
	for i := range n {
		ids = append(ids, fmt.Sprint("d", i+1))
	}
	for _, fate := range b.publish(t, b.publisher(t, n), b.deadLetters(), ids...) {
		if fate != Confirmed {
			t.Fatal("a message of the test's own is", fate)
		}
	}
	return ids
}

// contents takes all out of a queue.
func (b bench) contents(t *testing.T, queue string) (all []amqp.Delivery) {
	t.Helper()
	ch := b.raw(t)
	for {
		m, ok, err := ch.Get(queue, true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return all
		}
		all = append(all, m)
	}
}

// Thirty looks while messages arrive. There are more than 32, the number from which
// on the broker forgets the order of what several have in hand.
// (rabbitmq/rabbitmq-management#68)
func TestDeadLetters_LookingChangesNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range []QueueType{Quorum, Classic} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(t *Topology) { t.Type = kind })
			want := b.park(t, 100)
			p, c := b.publisher(t, 1), b.dial(t)
			for i := range 30 {
				b.publish(t, p, b.deadLetters(), fmt.Sprint("late", i))
				want = append(want, fmt.Sprint("late", i))
				d, _ := b.letters(t)
				var got []string
				err := d.Each(soon(t), func(l DeadLetter) (Choice, error) {
					if got = append(got, l.ID); len(got) == 50 {
						b.publish(t, p, b.deadLetters(), fmt.Sprint("meanwhile", i))
					}
					return Leave, nil
				}, nil)
				if err != nil {
					t.Fatal(err)
				}
				equal(t, fmt.Sprint("look ", i), got, want)
				want = append(want, fmt.Sprint("meanwhile", i))
				// Whoever counts now counts all: nothing is on its way back.
				if ready, consumers, _, err := c.Ready(soon(t), b.deadLetters()); ready != len(want) || consumers != 0 || err != nil {
					t.Fatalf("after look %d: %d ready, want %d; %d consumers, %v", i, ready, len(want), consumers, err)
				}
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
			}
			var ids []string
			for _, m := range b.contents(t, b.deadLetters()) {
				ids = append(ids, m.MessageId)
				if string(m.Body) != m.MessageId || m.ContentType != "application/json" || m.AppId != "notifylab" || m.DeliveryMode != amqp.Persistent {
					t.Errorf("changed: %+v", m)
				}
				for h := range m.Headers {
					if h != headerSerial && h != "x-delivery-count" {
						t.Errorf("%s has a new header %s", m.MessageId, h)
					}
				}
			}
			equal(t, "in the end", ids, want)
		})
	}
}

// Whoever is killed in the middle leaves all in order to the next, who may come at
// once.
func TestDeadLetters_KilledInTheMiddleOfALook(t *testing.T) {
	t.Parallel()
	for _, kind := range []QueueType{Quorum, Classic} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(t *Topology) { t.Type = kind })
			want := b.park(t, 100)
			for _, at := range []int{1, 50, 99, 100, 33} {
				d, c := b.letters(t)
				n := 0
				err := d.Each(soon(t), func(DeadLetter) (Choice, error) {
					if n++; n == at {
						c.cut()
						return Leave, context.Canceled
					}
					return Leave, nil
				}, nil)
				wantIs(t, err, context.Canceled)
				equal(t, fmt.Sprint("after a kill at ", at), b.look(t), want)
			}
		})
	}
}

func TestDeadLetters_Turns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.park(t, 3)
	first, holder := b.letters(t)
	began := time.Now()
	_, err := b.dial(t).DeadLetters(soon(t), b.Names, notify.Push)
	wantIs(t, err, ErrTurn)
	if took := time.Since(began); took < patience || took > patience+3*time.Second {
		t.Errorf("waited %v for a turn", took)
	}

	// Another channel's are free, and who waits gets the turn when it is: given
	// back, or left by somebody who is gone.
	if d, err := holder.DeadLetters(soon(t), b.Names, notify.Email); err != nil || d.Close() != nil {
		t.Error(err)
	}
	for _, leave := range []func(*DeadLetters, *Conn){
		func(d *DeadLetters, _ *Conn) { _ = d.Close() },
		func(_ *DeadLetters, c *Conn) { c.cut() },
	} {
		waiting := b.dial(t)
		got := make(chan *DeadLetters, 1)
		go func() {
			d, err := waiting.DeadLetters(soon(t), b.Names, notify.Push)
			if err != nil {
				t.Error(err)
			}
			got <- d
		}()
		select {
		case <-got:
			t.Fatal("two have the turn")
		case <-time.After(3 * pollEvery): // time enough to be refused
		}
		leave(first, holder)
		first, holder = <-got, waiting
		if first == nil {
			return
		}
	}
	equal(t, "in the end", lookOn(t, first), []string{"d1", "d2", "d3"})

	// Who waits can be called off.
	ctx, cancel := context.WithCancel(soon(t))
	d, _ := b.letters(t)
	cancel()
	late := b.dial(t)
	_, err = late.DeadLetters(ctx, b.Names, notify.Push)
	wantIs(t, err, context.Canceled)
	late.Close() // else it may get it yet
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	equal(t, "no queue of dead letters", func() []string {
		if err := b.dial(t).Delete(soon(t), b.deadLetters()); err != nil {
			t.Fatal(err)
		}
		return b.look(t)
	}(), nil)
}

// While everything is still refused, a replay of all ends: it takes what was there
// and not what it made.
func TestDeadLetters_ReplayWhileStillBroken(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.park(t, 50)
	s := b.open(t, 1)
	parked := make(chan int, 1)
	go func() {
		n := 0
		for d := range s.Deliveries() { // parks what comes, at once
			err := s.Park(soon(t), d, notify.Failure{Reason: "refused", Error: "still broken", Attempts: 1, At: time.Now(), Worker: "w"})
			if err != nil || s.AckNow(soon(t), d) != nil {
				break
			}
			if n++; n == 2*len(ids) {
				break
			}
		}
		parked <- n
	}()
	for range 2 {
		d, _ := b.letters(t)
		var gone []string
		err := d.Each(soon(t), func(DeadLetter) (Choice, error) { return Replay, nil }, func(l DeadLetter) { gone = append(gone, l.ID) })
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "replayed", gone, ids)
		b.awaitReady(t, b.deadLetters(), len(ids))
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := <-parked; n != 2*len(ids) {
		t.Errorf("%d were parked again, want %d", n, 2*len(ids))
	}
	equal(t, "in the end", b.look(t), ids)
	b.awaitReady(t, b.work(), 0)
}

// Choices among others: what stays stays in order, and what is dropped is gone.
func TestDeadLetters_Choices(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.park(t, 60)
	d, _ := b.letters(t)
	enough := errors.New("enough")
	n := 0
	err := d.Each(soon(t), func(DeadLetter) (Choice, error) {
		if n++; n > 50 {
			return Drop, enough
		}
		return []Choice{Leave, Replay, Drop}[n%3], nil
	}, nil)
	wantIs(t, err, enough)
	left, replayed := lookOn(t, d), []string{}
	for _, m := range b.contents(t, b.work()) {
		replayed = append(replayed, m.MessageId)
	}
	var wantLeft, wantReplayed []string
	for i := 1; i <= 60; i++ {
		if i%3 == 0 || i > 50 {
			wantLeft = append(wantLeft, fmt.Sprint("d", i))
		} else if i%3 == 1 {
			wantReplayed = append(wantReplayed, fmt.Sprint("d", i))
		}
	}
	equal(t, "left", left, wantLeft)
	equal(t, "replayed", replayed, wantReplayed)
}

// What the broker does not take stays where it is, and is said to be so.
func TestDeadLetters_ReplayThatIsNotConfirmed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args amqp.Table // of the work queue; nil: there is none
		fate Fate
	}{
		"no queue":             {nil, Returned},
		"a queue that is full": {amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"}, Nacked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			ids := b.park(t, 5)
			if err := b.dial(t).Delete(soon(t), b.work()); err != nil {
				t.Fatal(err)
			}
			if tt.args != nil {
				if _, err := b.raw(t).QueueDeclare(b.work(), true, false, false, false, tt.args); err != nil {
					t.Fatal(err)
				}
				b.fill(t, 1)
			}
			d, _ := b.letters(t)
			var why *ReplayError
			err := d.Each(soon(t), func(DeadLetter) (Choice, error) { return Replay, nil }, func(l DeadLetter) { t.Error(l.ID, "is gone") })
			if !errors.As(err, &why) || why.Fate != tt.fate || why.ID != "d1" || why.Queue != b.work() || !strings.Contains(err.Error(), tt.fate.String()) {
				t.Errorf("got %v", err)
			}
			equal(t, "left", lookOn(t, d), ids)
		})
	}
}

// What the broker parked by itself, after a way through a retry queue, is replayed,
// refused once, waits in the retry queue again and comes back: with the broker's
// headers 3.10 would take that for a cycle and drop it.
func TestDeadLetters_ParkedByTheDeliveryLimit(t *testing.T) {
	t.Parallel()
	const delay = 100 * time.Millisecond
	b := newBench(t, func(t *Topology) { t.Delays = []time.Duration{delay} })
	// A hundred deliveries, each through the broker's log, on a machine that is busy.
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	b.fill(t, 1)
	refuse := func(what string) {
		s := b.open(t, 1)
		d := next(t, s)
		for h := range d.Origin.(amqp.Delivery).Headers {
			if isBrokers(h) {
				t.Errorf("%s is kept", h)
			}
		}
		if err := s.Retry(ctx, d, delay, notify.Failure{Reason: "refused", Error: what, Attempts: d.Attempts + 1, At: time.Now(), Worker: "push-worker-1"}); err != nil {
			t.Fatal(err)
		}
		if err := s.AckNow(ctx, d); err != nil {
			t.Fatal(err)
		}
		s.Close(ctx)
	}
	refuse("first")
	ch := b.raw(t)
	all, err := ch.Consume(b.work(), "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	// It may have come back while the first one's session was open, and was counted then.
	for returned := 0; returned < DeliveryLimit; {
		select {
		case m := <-all:
			returned = received(m).Count
			if err := m.Nack(false, true); err != nil {
				t.Fatal(err)
			}
		case <-ctx.Done():
			t.Fatal("no delivery")
		}
	}
	b.awaitReady(t, b.deadLetters(), 1)
	ch.Close()

	d, _ := b.letters(t)
	var got DeadLetter
	err = d.Each(ctx, func(l DeadLetter) (Choice, error) { got = l; return Replay, nil }, nil)
	if err := errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	if got.ID != "m1" || string(got.Body) != "m1" || got.Reason != "delivery_limit" || !got.ByBroker || got.Worker != "" ||
		got.Attempts != 1 || got.First != "first" || len(got.History) != 1 || time.Since(got.At).Abs() > time.Minute {
		t.Errorf("got %+v", got)
	}
	refuse("second")
	s := b.open(t, 1)
	again := next(t, s)
	if again.Attempts != 1 || idOf(again) != "m1" {
		t.Errorf("want fresh attempts, got %+v", again)
	}
	history, _ := again.Origin.(amqp.Delivery).Headers[headerHistory].([]any)
	text := fmt.Sprint(history...)
	for i, part := range []string{"refused: first", "RabbitMQ delivery_limit", " replayed", "refused: second"} {
		if len(history) != 4 || !strings.Contains(history[i].(string), part) {
			t.Errorf("history: want %q as line %d, got %s", part, i, text)
		}
	}
	if first := again.Origin.(amqp.Delivery).Headers[headerFirst]; first != "second" {
		t.Errorf("the first error of fresh attempts is %v", first)
	}
	if err := s.AckNow(ctx, again); err != nil {
		t.Fatal(err)
	}
}

// A replay is the same message: body and properties, without what made it fail.
func TestFresh(t *testing.T) {
	t.Parallel()
	long := make([]any, maxHistory+5)
	for i := range long {
		long[i] = fmt.Sprint("line ", i)
	}
	m := amqp.Delivery{
		Body: []byte{0xff, 0, '{'}, MessageId: "m", ContentType: "application/json", Expiration: "1", UserId: "guest", CorrelationId: "c",
		Headers: amqp.Table{"own": "stays", headerCrash: "before-ack", headerAttempts: int64(3), headerFirst: "a", headerLast: "b", headerReason: "refused",
			headerTime: "now", headerWorker: "w", headerHistory: long, "x-delivery-count": int64(3), "x-first-death-reason": "expired",
			"x-last-death-reason": "x", "CC": []any{"elsewhere"},
			"x-death": []any{amqp.Table{"reason": "delivery_limit", "time": time.Unix(1, 0)}, amqp.Table{"reason": "expired"}}},
	}
	p := fresh(m)
	history := p.Headers[headerHistory].([]any)
	delete(p.Headers, headerHistory)
	if len(p.Headers) != 1 || p.Headers["own"] != "stays" || string(p.Body) != string(m.Body) || p.MessageId != "m" || p.Expiration != "" || p.UserId != "" || p.CorrelationId != "c" {
		t.Errorf("got %+v", p)
	}
	if len(history) != maxHistory || history[0] != "line 7" || history[maxHistory-2] != "1970-01-01T00:00:01Z RabbitMQ delivery_limit" {
		t.Errorf("history %v", history)
	}
	if len(m.Headers) != 14 || len(m.Headers[headerHistory].([]any)) != len(long) {
		t.Error("the original has changed")
	}
}

// Two thousand are looked at and replayed in the time that a person waits.
func TestDeadLetters_TwoThousand(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := b.park(t, 2000)
	for range 3 {
		promptly(t, "a look", 10*time.Second, func() {
			if got := b.look(t); !slices.Equal(got, ids) {
				t.Errorf("want %d in order, got %d", len(ids), len(got))
			}
		})
	}
	d, _ := b.letters(t)
	n := 0
	err := d.Each(soon(t), func(DeadLetter) (Choice, error) { return Replay, nil }, func(DeadLetter) { n++ })
	if err != nil || n != len(ids) {
		t.Errorf("%d replayed, %v", n, err)
	}
	b.awaitReady(t, b.work(), len(ids))
	equal(t, "left", lookOn(t, d), nil)
}
