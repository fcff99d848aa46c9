package worker_test

import (
	"fmt"
	"strings"
	"testing"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
)

// A message that kills the worker each time is parked after three crashes that
// were counted, which begin with the third delivery (on a classic queue, which
// does not count, with the second). Whoever was prefetched with it is sent, once.
// (MassTransit/MassTransit#2076)
func TestPoison(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		queue    broker.QueueType
		prefetch int
		point    string
		crashes  int
	}{
		{broker.Quorum, 1, "before-send", 5},
		{broker.Quorum, 50, "before-send", 5},
		{broker.Quorum, 50, "after-receive", 5},
		{broker.Classic, 1, "before-send", 4},
		{broker.Classic, 50, "before-send", 4},
	} {
		t.Run(fmt.Sprintf("%s, prefetch %d, %s", tc.queue, tc.prefetch, tc.point), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(o *options) { o.Queue, o.Prefetch, o.Concurrency = tc.queue, tc.prefetch, 1 })
			r.setLease()
			var messages []broker.Message
			for i := range 21 {
				crash := ""
				if i == 10 {
					crash = tc.point + ",always"
				}
				messages = append(messages, broker.NewMessage(r.topology().Names, notify.Push, note7(fmt.Sprint("n-", i)), crash))
			}
			r.publishAll(messages...)
			p := r.supervise()
			for i := range 21 {
				r.awaitKind(event.Acked, fmt.Sprint("n-", i))
			}
			r.stop(p)
			if got := r.count(func(e event.Event) bool { return e.Kind == event.Crash }); got != tc.crashes {
				t.Errorf("%d crashes, want %d", got, tc.crashes)
			}
			for i := range 21 {
				want := 1
				if i == 10 {
					want = 0
				}
				r.accepted(fmt.Sprint("n-", i), want)
			}
			r.lie(map[string]string{"n-10": "dlq"})
			if p := r.parked(); len(p) == 1 && p[0].Reason != "crashed" {
				t.Errorf("parked, reason %s, want crashed", p[0].Reason)
			}
			if keys, err := r.redis.Keys(r.ctx, r.Namespace.Key("crashes:*")).Result(); err != nil || len(keys) > 0 {
				t.Errorf("counts that stay: %v, %v", keys, err)
			}
		})
	}
}

// A handling that comes to an end did not kill the worker, even if its session
// ended under it: however often that happens, nobody is parked for it.
func TestPoison_IsNotWhatSurvives(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.setLease()
	p := newProxy(t, r.AMQP)
	r.AMQP = p.url
	held := func(n int) provider.Faults { // until it is held another time
		return provider.Faults{Gate: []provider.Gate{{Hold: "n", Until: fmt.Sprint("never-", n)}}, Refuse: refusing("n").Refuse}
	}
	r.provider.SetFaults(held(0))
	w := r.start()
	r.publish(note7("n"), "")
	n := 0
	for i := range 6 {
		r.awaitFrom(n, "claim", is(event.Claimed, "n"))
		n = r.history.Len()
		r.awaitHeld("n")
		p.cut()
		r.awaitFrom(n, "its redelivery", is(event.LeaseBusy, "n"))
		r.provider.SetFaults(held(i + 1)) // opens the gate before
		r.awaitFrom(n, "the end of its handling", is(event.Dropped, "n"))
	}
	r.provider.SetFaults(provider.Faults{})
	r.awaitKind(event.Acked, "n")
	w.stop()
	r.accepted("n", 1)
	r.lie(nil)
}

// A bug that panics in a handler ends the process, as it should: what else was in
// hand is sent by its next life, and the message that does it is parked.
// (ThreeDotsLabs/watermill#579)
func TestPoison_Panics(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *options) { o.Prefetch, o.Concurrency = 4, 4 })
	r.setLease()
	all := r.messages(20)
	all[10] = broker.NewMessage(r.topology().Names, notify.Push, notify.Notification{ID: "n-10", User: "panic", Text: "hello"}, "")
	r.publishAll(all...)
	p := r.supervise()
	r.awaitKind(event.DeadLetter, "n-10")
	for i := range all {
		r.awaitKind(event.Acked, fmt.Sprint("n-", i))
	}
	r.stop(p)
	if e := r.await("restart", func(e event.Event) bool { return e.Kind == event.Restart }); e.Exit != "exit 2" {
		t.Errorf("it ended with %s", e.Exit)
	}
	if r.count(func(e event.Event) bool { return e.Kind == event.Log && strings.HasPrefix(e.Line, "panic: in a send") }) == 0 {
		t.Error("the panic is not said")
	}
	r.lie(map[string]string{"n-10": "dlq"})
	if p := r.parked()[0]; p.Reason != "crashed" {
		t.Errorf("parked, reason %s, want crashed", p.Reason)
	}
}

// Without Redis nobody counts: there is only the broker's own limit.
func TestPoison_WithoutRedis(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *options) { o.Flags, o.WithoutRedis = &event.Settings{}, true })
	r.publish(note7("n"), "before-send,always")
	p := r.supervise()
	crashes := 0
	r.await("more crashes than would be counted", func(e event.Event) bool {
		if e.Kind == event.Crash {
			crashes++
		}
		return crashes == 8
	})
	r.stop(p)
	r.accepted("n", 0)
	r.lie(map[string]string{"n": "work"})
}
