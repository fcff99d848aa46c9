package broker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"notifylab/internal/notify"
	"notifylab/internal/servers"
)

// Under an alarm publishers wait, and say why; acks go through. RabbitMQ may take
// one more message of each connection, the one that makes it a publisher.
// (rabbitmq/amqp091-go#178)
func alarm(t *testing.T, pair *servers.Pair, b bench) {
	const overdue, slack = time.Second, 2 * time.Second
	const patience = 4 * time.Second // of the session, for a broker that stalls besides
	p, idle := b.publisher(t, 2), b.dial(t)
	equal(t, "before", b.publish(t, p, b.work(), "m1", "m2"), []Fate{Confirmed, Confirmed})
	s := b.open(t, 2)
	all := nextN(t, s, 2)

	ctl(t, pair, "set_vm_memory_high_watermark", "0.0000001")
	lifted := false
	lift := func() {
		if !lifted {
			lifted = true
			ctl(t, pair, "set_vm_memory_high_watermark", "0.4")
		}
	}
	defer lift()
	ctx := soon(t)
	for held := 0; held < 2; {
		var r *Receipt
		promptly(t, "start", slack, func() {
			var err error
			if r, err = p.Start(soon(t), Message{Queue: b.work(), ID: "held"}); err != nil {
				t.Fatal(err)
			}
		})
		promptly(t, "wait", overdue+slack, func() {
			switch fate, why := r.Wait(deadline(t, overdue)); {
			case fate == Unknown && strings.Contains(why.Error(), lowMemory):
				held++
			case ctx.Err() != nil, fate != Unknown && fate != Confirmed, p.Err() != nil:
				t.Fatal(fate, why)
			case fate == Unknown: // it has not said yet why it waits: anew, with no more in the window than counted
				p, held = b.publisher(t, 2), 0
			}
		})
	}
	if why := p.Blocked(); why != lowMemory {
		t.Errorf("blocked because %q", why)
	}
	promptly(t, "start with the window full", overdue+slack, func() {
		_, err := p.Start(deadline(t, overdue), Message{Queue: b.work()})
		wantIs(t, err, context.DeadlineExceeded)
		if err != nil && !strings.Contains(err.Error(), lowMemory) {
			t.Errorf("got %v", err)
		}
	})

	// Two copies: RabbitMQ may take the first, and of the second it is said at once,
	// and each time, that it waits.
	s.publishTimeout = patience
	began := time.Now()
	var waits []*notify.Delivery
	for i, d := range []*notify.Delivery{all[0], all[1], all[1]} {
		promptly(t, "a blocked copy", slack, func() {
			switch err := s.Park(soon(t), d, notify.Failure{}); {
			case err == nil && i == 0:
			case errors.Is(err, notify.ErrBlocked) && err.Error() == lowMemory:
				if i < 2 {
					waits = append(waits, d)
				}
			default:
				t.Fatal(i, err, s.Err())
			}
		})
	}
	promptly(t, "an ack beside a blocked copy", slack, func() {
		if err := s.AckNow(soon(t), all[1]); err != nil {
			t.Error(err, s.Err())
		}
	})
	closeBlocked(t, b, idle)
	<-time.After(time.Until(began.Add(patience + overdue)))
	select {
	case <-s.Unblocked():
		t.Error("unblocked during the alarm")
	default:
	}
	if s.Err() != nil {
		t.Errorf("the session did not outlast its publish time-out of %v: %v", patience, s.Err())
	}

	lift()
	for _, d := range waits {
		promptly(t, "a copy after the alarm", slack, func() {
			<-s.Unblocked()
			if err := s.Park(soon(t), d, notify.Failure{}); err != nil {
				t.Fatal(err)
			}
		})
	}
	b.awaitReady(t, b.deadLetters(), 2)
	equal(t, "after", b.publish(t, p, b.work(), "m4", "m5"), []Fate{Confirmed, Confirmed})
	if why := p.Blocked(); why != "" {
		t.Errorf("blocked, after the alarm, because %q", why)
	}
}

const lowMemory = "the broker blocks publishers: low on memory"

// closeBlocked closes connections that are blocked: one that has little to say,
// and one whose writes are stuck.
func closeBlocked(t *testing.T, b bench, idle *Conn) {
	t.Helper()
	cfg := b.config()
	cfg.Heartbeat = time.Second // the broker sends one each half second
	beating, err := Dial(soon(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for size, c := range map[int]*Conn{10: idle, 1 << 20: b.dial(t), 20: beating} {
		p, err := c.Publisher(context.Background(), 64)
		if err != nil {
			t.Fatal(err)
		}
		for range 64 {
			if _, err := p.Start(soon(t), Message{Queue: b.Queue("nowhere"), Body: make([]byte, size)}); err != nil {
				t.Fatal(err)
			}
		}
		promptly(t, "close", closeLimit+time.Second, func() { c.Close() })
	}
}
