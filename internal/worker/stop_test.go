package worker_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
	"notifylab/internal/supervise"
)

// A worker that is stopped under its lease, long enough for the broker to forget
// it and for the lease to end, and then goes on: another one has sent by then.
// (OptimalBits/bull#1310)
func TestStop(t *testing.T) {
	t.Parallel()
	for point, want := range map[string]struct {
		stopped, other string
	}{
		"after-claim": {
			stopped: "received claimed stopped woke lost dropped",
			other:   "received* busy claimed sent done acked",
		},
		// The send's own deadline has passed.
		"before-send": {
			stopped: "received claimed stopped woke lost dropped",
			other:   "received* busy claimed sent done acked",
		},
		// Accepted, answer unread, and accepted again: twice. (Whether the answer is
		// still read, or the time-out is first, is chance.)
		"mid-send": {
			stopped: "received claimed stopped woke unknown lost dropped|received claimed stopped woke sent lost dropped",
			other:   "received* busy claimed sent done acked",
		},
		// The same, and both say so.
		"after-send": {
			stopped: "received claimed sent stopped woke lost dropped",
			other:   "received* busy claimed sent done acked",
		},
		"before-ack": {
			stopped: "received claimed sent done stopped woke dropped",
			other:   "received* duplicate acked",
		},
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(o *options) {
				o.Prefetch, o.Concurrency, o.Heartbeat = 1, 1, time.Second
				o.SendTimeout, o.Lease = 6*time.Second, 12*time.Second
			})
			r.setLease()
			first := r.supervise()
			r.await("ready", func(e event.Event) bool { return e.Kind == event.Ready })
			n := note7("n")
			r.publish(n, point+",stop")
			r.awaitKind(event.Stopped, n.ID)
			r.ok(supervise.AwaitStopped(r.ctx, first.Pid()))
			second := r.superviseAwake()
			r.awaitKind(event.Acked, n.ID)
			seen := r.history.Len()
			r.ok(first.Signal(unix.SIGCONT))
			// An ack that is written before anybody has noticed the end of the
			// session goes nowhere.
			last := r.await("the woken worker's last line", func(e event.Event) bool {
				return e.Source == "push-worker-1" && e.ID == n.ID && (e.Kind == event.Dropped || e.Kind == event.Acked)
			})
			r.awaitFrom(seen, "ready again", func(e event.Event) bool { return e.Kind == event.Ready })
			r.stop(first)
			r.stop(second)
			got := r.storyOf("push-worker-1", n.ID)
			if last.Kind == event.Acked {
				got = strings.TrimSuffix(got, "acked") + "dropped"
			}
			if !slices.Contains(strings.Split(want.stopped, "|"), got) {
				t.Errorf("stopped worker\n got %s\nwant %s", got, want.stopped)
			}
			if got := busyOnce(r.storyOf("push-worker-2", n.ID)); got != want.other {
				t.Errorf("other worker\n got %s\nwant %s", got, want.other)
			}
			accepted := map[string]int{"mid-send": 2, "after-send": 2}[point]
			r.accepted(n.ID, max(1, accepted))
			if got := r.record(n); got != "done" {
				t.Errorf("record %q, want done", got)
			}
			r.lie(nil)
		})
	}
}

// superviseAwake starts a worker beside one that is to be found dead soon. Its own
// session must not end for a second or two of a busy machine.
func (r *rig) superviseAwake() *supervise.Process {
	r.t.Helper()
	r.Heartbeat = 10 * time.Second
	return r.supervise()
}

// A worker that wakes while its session still lives, and too little of its lease
// is left, claims again and sends; if it is told to stop, too.
func TestStop_Short(t *testing.T) {
	t.Parallel()
	for _, told := range []bool{false, true} {
		t.Run(fmt.Sprintf("told to stop %v", told), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(o *options) { o.SendTimeout, o.Lease = 10*time.Second, 14*time.Second })
			r.setLease()
			p := r.supervise()
			n := note7("n")
			r.publish(n, "after-claim,stop")
			stopped := r.awaitKind(event.Stopped, n.ID)
			r.ok(supervise.AwaitStopped(r.ctx, p.Pid()))
			select {
			case <-time.After(time.Until(stopped.Time.Add(3500 * time.Millisecond))):
			case <-r.ctx.Done():
			}
			if !told {
				r.ok(p.Signal(unix.SIGCONT))
				r.awaitKind(event.Acked, n.ID)
			}
			r.stop(p)
			r.tells(n.ID, "received claimed stopped woke lost sent done acked")
			r.accepted(n.ID, 1)
		})
	}
}

// Whoever finds at the end that the record is somebody else's leaves it alone,
// and the message to them: no copy. (riverqueue/river#1302)
func TestLease_OfSomebodyElse(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, story string
		accepted    int
		then        provider.Faults
	}{
		{"accepted", "received claimed sent lost acked", 1, provider.Faults{}},
		{"refused for good", "received claimed lost acked", 0, refusing("n")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.setLease()
			faults := tc.then
			faults.Gate = holding("n").Gate
			r.provider.SetFaults(faults)
			w := r.start()
			n := note7("n")
			r.publish(n, "")
			r.awaitHeld(n.ID)
			theirs := by(foreign, n, idem.Pending)
			r.put(n, theirs, time.Hour)
			r.provider.SetFaults(tc.then)
			r.awaitKind(event.Acked, n.ID)
			w.stop()
			r.tells(n.ID, tc.story)
			r.accepted(n.ID, tc.accepted)
			if got, err := r.redis.Get(r.ctx, r.Namespace.Key(notify.Key(n, notify.Push))).Result(); err != nil || got != theirs {
				t.Errorf("record %q, %v, want theirs", got, err)
			}
			r.lie(nil)
		})
	}
}

// A session that died while the worker was stopped gets no copy.
func TestStop_BeforeACopy(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *options) {
		o.Prefetch, o.Concurrency, o.Heartbeat = 1, 1, time.Second
		o.Backoff = []time.Duration{time.Hour}
	})
	r.setLease()
	n := notify.Notification{ID: "n", User: "999", Text: "hello"}
	first := r.supervise()
	r.await("ready", func(e event.Event) bool { return e.Kind == event.Ready })
	r.publish(n, "before-copy,stop")
	r.awaitKind(event.Stopped, n.ID)
	r.ok(supervise.AwaitStopped(r.ctx, first.Pid()))
	second := r.superviseAwake()
	r.awaitKind(event.Acked, n.ID)
	r.ok(first.Signal(unix.SIGCONT))
	r.awaitKind(event.Dropped, n.ID)
	r.stop(first)
	r.stop(second)
	if got, want := r.storyOf("push-worker-1", n.ID), "received claimed stopped woke dropped"; got != want {
		t.Errorf("stopped worker\n got %s\nwant %s", got, want)
	}
	if got, want := r.storyOf("push-worker-2", n.ID), "received* claimed retry acked"; got != want {
		t.Errorf("other worker\n got %s\nwant %s", got, want)
	}
	r.lie(map[string]string{"n": "retry"})
}
