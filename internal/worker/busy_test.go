package worker_test

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
	"notifylab/internal/supervise"
)

// foreign is a worker of another machine, of which nobody here can tell whether
// it lives.
var foreign = idem.Owner{Boot: "another-boot", File: "1:2", Slot: 3, Life: "life"}

// A record that a worker holds which lives: the message waits without a handler,
// and is recovered as soon as that worker is dead. (riverqueue/river#682)
func TestBusy_UntilItsOwnerDies(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *options) { o.Prefetch, o.Concurrency = 2, 1 })
	r.setLease()
	r.provider.SetFaults(provider.Faults{Hang: []provider.Target{{ID: "n"}}})
	owner := r.supervise()
	r.await("ready", func(e event.Event) bool { return e.Kind == event.Ready })
	r.publish(note7("n"), "")
	r.awaitHeld("n")
	r.ok(owner.Signal(unix.SIGSTOP)) // it keeps its lock, and takes no more
	r.ok(supervise.AwaitStopped(r.ctx, owner.Pid()))
	w := r.start()
	r.publish(note7("n"), "") // one of these two is for the other worker
	r.publish(note7("n"), "")
	busy := r.awaitKind(event.LeaseBusy, "n")
	if busy.Owner != "push-worker-1" || busy.TTLMS <= 0 || busy.TTLMS > r.Lease.Milliseconds() {
		t.Errorf("busy: %s has it for %d ms", busy.Owner, busy.TTLMS)
	}
	r.publish(note7("n-2"), "")
	r.publish(note7("n-3"), "")
	r.provider.SetFaults(provider.Faults{})
	r.await("another one", func(e event.Event) bool { return e.Kind == event.Sent && e.ID != "n" })
	killed := time.Now()
	owner.Kill()
	recovered := r.awaitKind(event.ClaimRecovered, "n")
	if wait := recovered.Time.Sub(killed); wait > 10*time.Second {
		t.Errorf("recovered after %v, want at once", wait)
	}
	acked := 0
	r.await("the end of all five", func(e event.Event) bool {
		if e.Kind == event.Acked {
			acked++
		}
		return acked == 5
	})
	w.stop()
	r.lie(nil)
	for _, id := range []string{"n", "n-2", "n-3"} {
		r.accepted(id, 1)
	}
}

// The message itself is taken up again, whether or not another comes.
func TestBusy_UntilItsSlotIsFree(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *options) { o.Prefetch, o.Concurrency = 1, 1 })
	r.setLease()
	owner, err := idem.TakeSlot(r.State, r.Namespace, notify.Push)
	r.ok(err)
	r.put(note7("n"), by(owner.Owner(), note7("n"), idem.Pending), time.Hour)
	w := r.start()
	r.publish(note7("n"), "")
	r.awaitKind(event.LeaseBusy, "n")
	r.ok(owner.Free())
	r.awaitKind(event.Acked, "n")
	w.stop()
	r.tells("n", "received busy recovered sent done acked")
	r.accepted("n", 1)
}

// Of another machine's worker nobody can tell: its message waits for the lease.
// (rabbitmq/rabbitmq-server#1020)
func TestBusy_UntilTheLeaseEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.setLease()
	n := note7("n")
	r.put(n, by(foreign, n, idem.Pending), time.Hour)
	w := r.start()
	r.publish(n, "")
	r.awaitKind(event.LeaseBusy, "n")
	const left = time.Second
	until := time.Now().Add(left)
	r.ok(r.redis.PExpire(r.ctx, r.Namespace.Key(notify.Key(n, notify.Push)), left).Err())
	if e := r.awaitKind(event.Claimed, "n"); e.Time.Before(until) {
		t.Errorf("claimed %v before the lease's end", until.Sub(e.Time))
	}
	r.awaitKind(event.Acked, "n")
	w.stop()
	r.tells("n", "received busy claimed sent done acked")
	r.accepted("n", 1)
}

// Settings are those of the moment, for a message that waited, too: a record that
// is not asked any more is neither written nor compared.
func TestBusy_UntilSettingsAreSwitched(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.setLease()
	n := note7("n")
	r.put(n, by(foreign, n, idem.Pending), time.Hour)
	w := r.start()
	r.publish(n, "")
	r.awaitKind(event.LeaseBusy, "n")
	r.set()
	r.put(n, by(foreign, n, idem.Done), time.Hour)
	r.awaitKind(event.Acked, "n")
	w.stop()
	r.tells("n", "received busy sent acked")
	r.accepted("n", 1)
	r.lie(nil)
}

// Settings are read for each message.
func TestSettings_AreReadForEachMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	w := r.start()
	for _, step := range []struct {
		id, story string
		on        []string
		key       bool
	}{
		{"n-1", "received sent acked", nil, false},
		{"n-2", "received claimed sent acked", []string{"idempotency"}, false},
		{"n-3", "received claimed sent done acked", []string{"idempotency", "claim-lease"}, false},
		{"n-4", "received sent acked", []string{"claim-lease", "provider-key"}, true},
		{"n-5", "received sent acked", nil, false},
	} {
		r.set(step.on...)
		r.publish(note7(step.id), "")
		r.awaitKind(event.Acked, step.id)
		r.tells(step.id, step.story)
		calls := r.provider.Calls()
		if got := calls[len(calls)-1].Key != ""; got != step.key {
			t.Errorf("%s: sent with a key %v, want %v", step.id, got, step.key)
		}
	}
	w.stop()
}

// What is remembered is remembered until Redis forgets it, and not by anybody's
// clock: a copy that comes later is sent. (hookdeck/outpost#539)
func TestDuplicates_AfterTheRetention(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.setLease()
	n := note7("n")
	w := r.start()
	r.publish(n, "")
	r.tells(n.ID, "received claimed sent done acked")
	r.publish(n, "")
	r.tells(n.ID, "received claimed sent done acked received duplicate acked")
	r.ok(r.redis.PExpire(r.ctx, r.Namespace.Key(notify.Key(n, notify.Push)), time.Millisecond).Err())
	for r.record(n) != "" && r.ctx.Err() == nil {
		continue // until it is forgotten
	}
	r.publish(n, "")
	r.tells(n.ID, "received claimed sent done acked received duplicate acked received claimed sent done acked")
	w.stop()
	r.accepted(n.ID, 2)
}

// Of two workers each takes its prefetch and no more, and both work.
// (wagslane/go-rabbitmq#113)
func TestPrefetch_IsEachWorkersOwn(t *testing.T) {
	t.Parallel()
	const messages, prefetch = 1000, 16
	r := newRig(t, func(o *options) { o.Prefetch = prefetch })
	workers := []*running{r.start(), r.start()}
	var gates []provider.Gate
	for i := range 2 * prefetch {
		gates = append(gates, provider.Gate{Hold: fmt.Sprint("n-", i), Until: "never"})
	}
	r.provider.SetFaults(provider.Faults{Gate: gates})
	r.publishAll(r.messages(messages)...)
	for _, g := range gates {
		r.awaitHeld(g.Hold)
	}
	if ready, _, _, err := r.conn.Ready(r.ctx, r.topology().Work(notify.Push)); ready != messages-2*prefetch || err != nil {
		t.Errorf("%d are ready, %v, want %d: the rest is in hand", ready, err, messages-2*prefetch)
	}
	r.provider.SetFaults(provider.Faults{Delay: []provider.Delay{{For: time.Millisecond}}})
	for i := range messages {
		r.awaitKind(event.Acked, fmt.Sprint("n-", i))
	}
	for _, w := range workers {
		w.stop()
	}
	for _, name := range []string{"push-worker-1", "push-worker-2"} {
		if n := r.count(func(e event.Event) bool { return e.Kind == event.Sent && e.Source == name }); n < messages*3/10 {
			t.Errorf("%s sent %d of %d", name, n, messages)
		}
	}
	r.lie(nil)
}

// Of several copies of one notification one is sent, the others are dropped.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.setLease()
	w := r.start()
	for range 5 {
		r.publish(note7("n"), "")
	}
	dropped := 0
	r.await("four dropped", func(e event.Event) bool {
		if e.Kind == event.DuplicateDropped {
			dropped++
		}
		return dropped == 4
	})
	w.stop()
	r.accepted("n", 1)
	r.lie(nil)
}
