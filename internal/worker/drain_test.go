package worker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
)

// refusing is a provider that refuses one notification for good.
func refusing(id string) provider.Faults {
	return provider.Faults{Refuse: []provider.Refusal{{Target: provider.Target{ID: id}, Status: 410}}}
}

// holding is a provider that holds the calls for one notification until it is
// told something else.
func holding(id string) provider.Faults {
	return provider.Faults{Gate: []provider.Gate{{Hold: id, Until: "never"}}}
}

// A worker that is told to stop during a send finishes it, and gives back what it
// had not begun, in its order. (celery/celery#2700)
func TestDrain(t *testing.T) {
	t.Parallel()
	for setting, story := range map[string]string{
		"none":  "received sent acked",
		"lease": "received claimed sent done acked",
		"early": "received acked sent",
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(o *options) { o.Prefetch, o.Concurrency, o.AckEarly = 5, 1, setting == "early" })
			if setting == "lease" {
				r.setLease()
			}
			r.provider.SetFaults(holding("n-0"))
			w := r.start()
			var messages []broker.Message
			for i := range 5 {
				messages = append(messages, broker.NewMessage(r.topology().Names, notify.Push, note7(fmt.Sprint("n-", i)), ""))
			}
			r.publishAll(messages...)
			r.awaitHeld("n-0")
			w.cancel()
			r.await("draining", func(e event.Event) bool { return e.Kind == event.Draining })
			r.provider.SetFaults(provider.Faults{})
			w.stop()
			r.tells("n-0", story)
			r.accepted("n-0", 1)
			back := r.await("given back", func(e event.Event) bool { return e.Kind == event.GivenBack })
			if back.Messages != 4 {
				t.Errorf("given back %d, want 4", back.Messages)
			}
			if got := r.order(4); !slices.Equal(got, []string{"n-1", "n-2", "n-3", "n-4"}) {
				t.Errorf("given back in the order %v", got)
			}
		})
	}
}

// order returns the ids of n messages in the order in which the work queue hands
// them over.
func (r *rig) order(n int) []string {
	r.t.Helper()
	s, err := broker.Open(r.ctx, broker.SessionConfig{
		Config:   broker.Config{URL: r.AMQP, Name: "test", Heartbeat: 10 * time.Second, Timeout: limit},
		Topology: r.topology(), Prefetch: n, PublishTimeout: limit,
	})
	r.ok(err)
	defer s.Close(r.ctx)
	var ids []string
	for range n {
		select {
		case d := <-s.Deliveries():
			n, err := notify.Decode(d.Body)
			r.ok(err)
			ids = append(ids, n.ID)
		case <-r.ctx.Done():
			r.t.Fatalf("handed over %v, no more", ids)
		}
	}
	return ids
}

// One that waits for its copy is given back, and so is one that is busy.
func TestDrain_GivesBackWhatWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.setLease()
	r.provider.SetFaults(refusing("n-1"))
	r.put(note7("n-2"), by(foreign, note7("n-2"), "pending"), time.Hour)
	w := r.start()
	r.ok(r.conn.Delete(r.ctx, r.topology().DeadLetters(notify.Push)))
	r.publish(note7("n-1"), "")
	r.publish(note7("n-2"), "")
	r.awaitKind(event.Returned, "n-1")
	r.awaitKind(event.LeaseBusy, "n-2")
	w.stop()
	back := r.await("given back", func(e event.Event) bool { return e.Kind == event.GivenBack })
	if back.Messages != 2 {
		t.Errorf("given back %d, want 2", back.Messages)
	}
	r.ok(r.conn.Declare(r.ctx, r.topology()))
	r.lie(map[string]string{"n-1": "work", "n-2": "work"})
	r.compare("n-1", compact(r.story("n-1")), "received claimed returned")
	r.tells("n-2", "received busy")
}

// A process that is told to stop in the middle of a send ends with status 0.
func TestDrain_OfAProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *options) { o.Prefetch, o.Concurrency = 5, 1 })
	r.setLease()
	r.provider.SetFaults(holding("n-0"))
	p := r.supervise()
	for i := range 3 {
		r.publish(note7(fmt.Sprint("n-", i)), "")
	}
	r.awaitHeld("n-0")
	stopped := make(chan error, 1)
	go func() { stopped <- p.Stop(r.ctx) }()
	r.await("draining", func(e event.Event) bool { return e.Kind == event.Draining })
	r.provider.SetFaults(provider.Faults{})
	r.ok(<-stopped)
	if e := r.await("exit", func(e event.Event) bool { return e.Kind == event.Exited }); e.Exit != "exit 0" {
		t.Errorf("ended: %s, want exit 0", e.Exit)
	}
	r.tells("n-0", "received claimed sent done acked")
	r.lie(map[string]string{"n-1": "work", "n-2": "work"})
}
