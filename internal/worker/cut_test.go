package worker_test

import (
	"fmt"
	"testing"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
)

// messages are n of them, n-0 and so on, for user 7.
func (r *rig) messages(n int) (all []broker.Message) {
	for i := range n {
		all = append(all, broker.NewMessage(r.topology().Names, notify.Push, note7(fmt.Sprint("n-", i)), ""))
	}
	return all
}

// A link that carries nothing any more, while neither end is told: heartbeats tell
// both, the message is handed over again, and what was being sent is sent once.
// (OpenSIPS/opensips#100, gftea/amqprs#125)
func TestLink_CarriesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *options) { o.Heartbeat = time.Second })
	r.setLease()
	p := newProxy(t, r.AMQP)
	r.AMQP = p.url
	r.provider.SetFaults(holding("n"))
	w := r.start()
	r.publish(note7("n"), "")
	r.awaitHeld("n")
	dropped := time.Now()
	p.drop()
	over := r.await("the end of the session", isOver)
	if took := over.Time.Sub(dropped); took > 3*r.Heartbeat+10*time.Second {
		t.Errorf("noticed after %v, with a heartbeat of %v", took, r.Heartbeat)
	}
	r.awaitKind(event.LeaseBusy, "n")
	r.provider.SetFaults(provider.Faults{})
	r.awaitKind(event.Acked, "n")
	w.stop()
	r.compare("n", busyOnce(r.story("n")), mixed("received claimed received* busy sent", "done dropped", "duplicate acked")...)
	r.accepted("n", 1)
	r.lie(nil)
}

// Twenty connections are cut under load. Each delivery is settled once or is its
// dead session's: nothing is in hand for ever, nothing lost, and under a lease
// nothing sent twice. (johanhaleby/occurrent#930, EasyNetQ/EasyNetQ#1329)
func TestLink_CutTwentyTimes(t *testing.T) {
	t.Parallel()
	const cuts, each = 20, 50
	r := newRig(t, func(o *options) { o.Prefetch = 32 })
	r.setLease()
	p := newProxy(t, r.AMQP)
	r.AMQP = p.url
	r.provider.SetFaults(provider.Faults{Delay: []provider.Delay{{For: 5 * time.Millisecond}}})
	w := r.start()
	all := r.messages(cuts * each)
	for cut := range cuts {
		n := r.history.Len()
		r.publishAll(all[cut*each : (cut+1)*each]...)
		r.awaitFrom(n, "a send in this session", func(e event.Event) bool { return e.Kind == event.Sent })
		n = r.history.Len()
		p.cut()
		r.awaitFrom(n, "the next session", func(e event.Event) bool { return e.Kind == event.Ready })
	}
	for i := range all {
		r.awaitKind(event.Acked, fmt.Sprint("n-", i))
	}
	r.settle()
	w.stop()
	if r.count(func(e event.Event) bool { return e.Kind == event.GivenBack }) > 0 {
		t.Error("something was in hand to the end, and given back")
	}
	of := func(k event.Kind) int { return r.count(func(e event.Event) bool { return e.Kind == k }) }
	if received, acked, dropped := of(event.Received), of(event.Acked), of(event.Dropped); received != acked+dropped || dropped == 0 {
		t.Errorf("%d received, %d acked and %d dropped: each has one end", received, acked, dropped)
	}
	if got := r.count(isOver); got != cuts {
		t.Errorf("said %d times that the session is over, want %d", got, cuts)
	}
	for i := range all {
		r.accepted(fmt.Sprint("n-", i), 1)
	}
	r.lie(nil)
}

// A worker that is told to stop while copies are on their way, and loses its
// connections in the same moment, stops. (rabbitmq/amqp091-go#21, #32, #88)
func TestLink_CutWhileItStops(t *testing.T) {
	t.Parallel()
	const rounds = 50
	r := newRig(t, nil)
	p := newProxy(t, r.AMQP)
	r.AMQP = p.url
	r.provider.SetFaults(provider.Faults{Refuse: []provider.Refusal{{Status: 410}}})
	r.publishAll(r.messages(1000)...)
	for round := range rounds {
		n := r.history.Len()
		w := r.start()
		for range round % 5 {
			r.awaitFrom(n, "a copy", func(e event.Event) bool { return e.Kind == event.DeadLetter })
			n = r.history.Len()
		}
		began := time.Now()
		if round%2 == 0 {
			p.cut()
			w.cancel()
		} else {
			w.cancel()
			p.cut()
		}
		w.stop()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("round %d: it took %v", round, took)
		}
	}
}

// Acks go no further than what is settled: the fifth was, the first four are handed
// over again when the worker is killed. (rabbitmq, confirms.md)
func TestKill_BehindAHole(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *options) { o.Prefetch, o.Concurrency = 5, 5 })
	var hang []provider.Target
	for i := range 4 {
		hang = append(hang, provider.Target{ID: fmt.Sprint("n-", i)})
	}
	r.provider.SetFaults(provider.Faults{Hang: hang})
	p := r.supervise()
	r.publishAll(r.messages(4)...)
	for i := range 4 {
		r.awaitHeld(fmt.Sprint("n-", i))
	}
	n := r.history.Len()
	r.publish(note7("n-4"), "after-ack")
	r.awaitKind(event.Crash, "n-4")
	r.provider.SetFaults(provider.Faults{})
	r.awaitFrom(n, "ready again", func(e event.Event) bool { return e.Kind == event.Ready })
	for i := range 4 {
		r.awaitKind(event.Acked, fmt.Sprint("n-", i))
	}
	r.stop(p)
	r.tells("n-4", "received sent acked crash")
	for i := range 4 {
		r.tells(fmt.Sprint("n-", i), "received received* sent acked")
	}
	r.lie(nil)
}
