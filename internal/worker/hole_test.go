package worker_test

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
)

// An ack never covers what is not settled: at the head of all is a delivery that
// stays busy, behind it 256 handlers end in every order, and the worker is killed in
// the middle. Whatever an ack had covered too early would be lost.
func TestLoad_behind_a_hole(t *testing.T) {
	t.Parallel()
	const messages = 900
	r := newRig(t, func(o *options) { o.Prefetch, o.Concurrency = 512, 256 })
	r.setLease()
	r.provider.SetFaults(provider.Faults{Delay: []provider.Delay{
		{Target: provider.Target{User: "1"}, For: time.Millisecond},
		{Target: provider.Target{User: "2"}, For: 9 * time.Millisecond},
		{Target: provider.Target{User: "3"}, For: 40 * time.Millisecond},
	}})
	live, err := idem.TakeSlot(r.State, r.Namespace, notify.Push)
	r.ok(err)
	t.Cleanup(func() { _ = live.Free() })
	head := note7("head")
	r.put(head, by(live.Owner(), head, idem.Pending), time.Hour)

	queued := []broker.Message{broker.NewMessage(r.topology().Names, notify.Push, head, "")}
	var all []notify.Notification
	for i := range messages {
		n := notify.Notification{ID: fmt.Sprint("n-", i), User: fmt.Sprint(i * i % 5), Text: "hello"}
		all = append(all, n)
		queued = append(queued, broker.NewMessage(r.topology().Names, notify.Push, n, ""))
	}
	r.publishAll(queued...)
	p := r.supervise()
	r.awaitLedger(func(l *provider.Ledger) bool { return l.Count(event.Accepted) >= messages/3 })
	r.ok(p.Signal(unix.SIGKILL))
	ended := map[string]bool{}
	r.await("the end of all but the head", func(e event.Event) bool {
		if e.Kind == event.Done || e.Kind == event.DuplicateDropped {
			ended[e.ID] = true
		}
		return len(ended) == messages
	})
	r.stop(p)

	var lost []string
	for _, n := range all {
		if r.provider.Accepted(n.ID, notify.Push) == 0 {
			lost = append(lost, n.ID)
		}
	}
	if len(lost) > 0 {
		t.Errorf("lost: %v", lost)
	}
	r.accepted(head.ID, 0)
	r.lie(map[string]string{head.ID: "work"})
}
