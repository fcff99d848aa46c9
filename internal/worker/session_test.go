package worker_test

import (
	"sync"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
)

// A session that ends under a send does not end the send: it is recorded, and the
// next session's delivery of the same message finds it busy, then done.
// (Particular/NServiceBus#5648)
func TestSession_EndsUnderASend(t *testing.T) {
	t.Parallel()
	for setting, stories := range map[string][]string{
		"lease": mixed("received claimed received* busy sent", "done dropped", "duplicate acked"),
		// The record drops the redelivery while the first send is under way.
		"record": {"received claimed received* duplicate acked sent dropped"},
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.set(map[string][]string{"lease": {"idempotency", "claim-lease"}, "record": {"idempotency"}}[setting]...)
			p := newProxy(t, r.AMQP)
			r.AMQP = p.url
			r.provider.SetFaults(holding("n"))
			w := r.start()
			r.publish(note7("n"), "")
			r.awaitHeld("n")
			p.cut()
			r.await("redelivery", func(e event.Event) bool { return e.Kind == event.LeaseBusy || e.Kind == event.Acked })
			r.publish(note7("n-2"), "") // the busy one is in nobody's way
			r.awaitKind(event.Sent, "n-2")
			r.provider.SetFaults(provider.Faults{})
			r.tells("n", stories...)
			w.stop()
			r.tells("n", stories...)
			r.accepted("n", 1)
			r.lie(nil)
			if got := r.count(isOver); got != 1 {
				t.Errorf("said %d times that the session is over, want once", got)
			}
		})
	}
}

// No copy is made for a delivery whose session is over: the redelivery's is the
// only one.
func TestSession_EndsUnderARefusal(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.setLease()
	p := newProxy(t, r.AMQP)
	r.AMQP = p.url
	faults := refusing("n")
	faults.Gate = holding("n").Gate
	r.provider.SetFaults(faults)
	w := r.start()
	r.publish(note7("n"), "")
	r.awaitHeld("n")
	p.cut()
	r.awaitKind(event.LeaseBusy, "n")
	r.provider.SetFaults(refusing("n"))
	r.awaitKind(event.Acked, "n")
	w.stop()
	r.tells("n", mixed("received claimed received* busy", "dropped", "claimed parked acked")...)
	r.lie(map[string]string{"n": "dlq"})
}

// What was acked early has nobody else to make its copy: the next session does.
func TestSession_EndsUnderARefusal_AckedEarly(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *options) { o.AckEarly = true })
	p := newProxy(t, r.AMQP)
	r.AMQP = p.url
	faults := refusing("n")
	faults.Gate = holding("n").Gate
	r.provider.SetFaults(faults)
	w := r.start()
	r.publish(note7("n"), "")
	r.awaitHeld("n")
	n := r.history.Len()
	p.cut()
	r.awaitFrom(n, "the next session", func(e event.Event) bool { return e.Kind == event.Ready })
	w.cancel() // what is in hand is finished, of an ended session, too
	r.provider.SetFaults(refusing("n"))
	w.stop()
	r.tells("n", "received acked parked")
	r.lie(map[string]string{"n": "dlq"})
}

// Of an early ack that the session's end overtakes nobody knows, and that is said.
func TestSession_EndsUnderAnEarlyAck(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	var p *proxy
	var once sync.Once
	r := newRig(t, func(o *options) {
		o.AckEarly = true
		o.Asked = func(what, id string) {
			if what == "ack now" && id == "n" {
				once.Do(func() { p.mute.Store(true); close(asked) })
			}
		}
	})
	p = newProxy(t, r.AMQP)
	r.AMQP = p.url
	w := r.start()
	r.publish(note7("n"), "")
	<-asked
	p.cut()
	r.awaitKind(event.Note, "n")
	r.publish(note7("n-2"), "")
	p.mute.Store(false)
	r.awaitKind(event.Sent, "n-2")
	w.stop()
	if got := r.story("n"); got != "received note" && got != "received note received acked sent" {
		t.Errorf("got %s", got)
	}
	r.lie(nil)
}

// Handlers of an ended session take no place in the next one.
func TestSession_EndsUnderAllHandlers(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *options) { o.Prefetch, o.Concurrency = 1, 1 })
	p := newProxy(t, r.AMQP)
	r.AMQP = p.url
	r.provider.SetFaults(holding("n"))
	w := r.start()
	r.publish(note7("n"), "")
	r.awaitHeld("n")
	p.cut()
	r.provider.SetFaults(provider.Faults{Gate: holding("n").Gate, Refuse: refusing("n-2").Refuse})
	r.await("the redelivery", func(e event.Event) bool { return e.Kind == event.Received && e.Redelivered })
	r.awaitLedger(func(l *provider.Ledger) bool { return l.Held("n", notify.Push) == 2 })
	r.provider.SetFaults(provider.Faults{})
	w.stop()
	r.accepted("n", 2) // without a record
	r.lie(nil)
}

// Sessions that end as soon as they are there follow each other more and more
// slowly.
func TestSession_EndsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	p := newProxy(t, r.AMQP)
	r.AMQP = p.url
	w := r.startUnready()
	var first, last time.Time
	n := 0
	for i := range 5 {
		e := r.awaitFrom(n, "a session", func(e event.Event) bool { return e.Kind == event.Ready })
		if i == 0 {
			first = e.Time
		}
		last = e.Time
		n = r.history.Len()
		p.cut()
	}
	if took := last.Sub(first); took < 1500*time.Millisecond {
		t.Errorf("five sessions in %v", took)
	}
	w.stop()
}
