package worker_test

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
)

// Under load, refusals and five kills nothing is lost in lease mode, and what is
// sent twice was in a handler's hand at a kill.
func TestLoad(t *testing.T) {
	t.Parallel()
	const messages, kills, handlers = 500, 5, 32
	r := newRig(t, func(o *options) {
		o.Prefetch, o.Concurrency = 64, handlers
		o.Backoff = []time.Duration{20 * time.Millisecond, 40 * time.Millisecond}
	})
	r.setLease()
	r.provider.SetFaults(provider.Faults{
		Refuse: []provider.Refusal{
			{Target: provider.Target{User: "gone"}, Status: 410},
			{Target: provider.Target{User: "away"}, Status: 503},
			{Target: provider.Target{User: "broken"}, Status: 500},
		},
		Delay: []provider.Delay{{For: 5 * time.Millisecond}},
	})
	users := []string{"7", "7", "7", "gone", "7", "away", "7", "broken", "7", "999"}
	var all []notify.Notification
	var queued []broker.Message
	for i := range messages {
		n := notify.Notification{ID: fmt.Sprint("n-", i), User: users[i%len(users)], Text: "hello"}
		all = append(all, n)
		queued = append(queued, broker.NewMessage(r.topology().Names, notify.Push, n, ""))
	}
	r.publishAll(queued...)
	p := r.supervise()
	for kill := range kills {
		r.awaitLedger(func(l *provider.Ledger) bool { return l.Count(event.Accepted) >= 50*(kill+1) })
		n := r.history.Len()
		r.ok(p.Signal(unix.SIGKILL))
		r.awaitFrom(n, "ready again", func(e event.Event) bool { return e.Kind == event.Ready })
	}
	ended := map[string]bool{}
	r.await("the end of all", func(e event.Event) bool {
		if e.Kind == event.DeadLetter || e.Kind == event.Done || e.Kind == event.DuplicateDropped {
			ended[e.ID] = true
		}
		return len(ended) == messages
	})
	r.settle()
	r.stop(p)

	accepted := 0
	var lost []string
	lies := map[string]string{}
	for id, place := range r.places() {
		if place == "dlq" || place == "dlq dlq" { // killed between copy and ack
			lies[id] = "dlq"
		} else {
			t.Errorf("%s lies in %s", id, place)
		}
	}
	for _, n := range all {
		got := r.provider.Accepted(n.ID, notify.Push)
		accepted += got
		if n.User == "7" && (got == 0 || lies[n.ID] != "") || n.User != "7" && lies[n.ID] == "" {
			lost = append(lost, n.ID)
		}
	}
	if len(lost) > 0 {
		t.Errorf("neither accepted nor parked as they should be: %v", lost)
	}
	if sent := messages * 6 / 10; accepted > sent+kills*handlers {
		t.Errorf("accepted %d times, want at most %d and %d for each kill", accepted, sent, handlers)
	}
	t.Logf("%d accepted for %d", accepted, messages*6/10)
}

// settle waits until nothing is queued or in hand: a round in which the one behind
// all others is sent, and nothing else happens or waits for somebody's record.
func (r *rig) settle() {
	r.t.Helper()
	for round := 0; ; round++ {
		id, n := fmt.Sprint("behind-", round), r.history.Len()
		r.publish(note7(id), "")
		r.awaitKind(event.Acked, id)
		quiet := r.inHand() == 0
		for _, e := range r.history.All()[n:] {
			quiet = quiet && (e.ID == id || e.ID == "")
		}
		for _, delay := range r.Backoff {
			waiting, _, _, err := r.conn.Ready(r.ctx, r.topology().Retry(notify.Push, delay))
			r.ok(err)
			quiet = quiet && waiting == 0
		}
		if quiet {
			return
		}
	}
}

// inHand is how many deliveries were begun by workers that live, and have had no end.
func (r *rig) inHand() (n int) {
	type life struct {
		worker string
		pid    int
	}
	last, begun := map[string]life{}, map[life]int{}
	for _, e := range r.history.All() {
		l := life{e.Source, e.PID}
		switch e.Kind {
		case event.Ready:
			last[e.Source] = l
		case event.Received:
			begun[l]++
		case event.Acked, event.Dropped:
			begun[l]--
		}
	}
	for _, l := range last {
		n += begun[l]
	}
	return n
}
