package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
)

// remains is what a run may leave behind.
type remains bool

const (
	nothing       remains = false
	queuesAndKeys remains = true
)

// left looks for all that a run can leave behind: queues, keys, processes and
// directories. The broker and Redis are asked, not the scenario.
func (r rig) left(t testing.TB, want remains) {
	t.Helper()
	ctx := within(t)
	conn := r.dial(t, ctx)
	for _, q := range r.topology(0).QueueNames() {
		if _, _, ok, err := conn.Ready(ctx, q); err != nil || ok && want == nothing {
			t.Errorf("queue %s is left: %v, %v", q, ok, err)
		}
	}
	r.passesLeft(t, conn, ctx, want)
	if keys := r.keys(t, ctx); (len(keys) > 0) != bool(want) {
		t.Errorf("keys: %v", keys)
	}
	if p := processes(t, "--namespace "+string(r.Namespace)+" "); len(p) > 0 {
		t.Errorf("processes are left: %q", p)
	}
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), "notifylab-scenario-"+string(r.Namespace)+"-*"))
	if err != nil || len(dirs) > 0 {
		t.Errorf("directories are left: %v, %v", dirs, err)
	}
}

// topology is every queue that a scenario in this namespace can have.
func (r rig) topology(expires time.Duration) broker.Topology {
	return broker.Topology{
		Names: broker.Names{Namespace: r.Namespace}, Channels: notify.Channels(),
		Delays: delays(), Type: broker.Quorum, Expires: expires,
	}
}

func (r rig) dial(t testing.TB, ctx context.Context) *broker.Conn {
	t.Helper()
	conn, err := broker.Dial(ctx, broker.Config{URL: r.AMQPURL, Name: "notifylab test", Heartbeat: 10 * time.Second, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func (r rig) redis(t testing.TB) idem.Client {
	t.Helper()
	client, err := idem.Dial(r.RedisURL, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func (r rig) keys(t testing.TB, ctx context.Context) []string {
	t.Helper()
	keys, err := r.redis(t).Keys(ctx, r.Namespace.Key("*")).Result()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// processes returns the command lines that hold text.
func processes(t testing.TB, text string) []string {
	t.Helper()
	var lines [][]byte
	if files, _ := filepath.Glob("/proc/[0-9]*/cmdline"); len(files) > 0 {
		for _, f := range files {
			line, _ := os.ReadFile(f) // it may have ended by now
			lines = append(lines, bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
		}
	} else {
		out, err := exec.Command("ps", "-A", "-o", "args=").Output()
		if err != nil {
			t.Fatal(err)
		}
		lines = bytes.Split(out, []byte{'\n'})
	}
	var found []string
	for _, line := range lines {
		if bytes.Contains(line, []byte(text)) {
			found = append(found, string(line))
		}
	}
	return found
}

var errEnough = errors.New("enough")

// TestRun_ended_in_the_middle ends runs when they have come so far, and at moments
// that fall anywhere: the run says why it ended, and nothing is left.
func TestRun_ended_in_the_middle(t *testing.T) {
	t.Parallel()
	type moment struct {
		lesson string
		event  int           // the n-th, or
		after  time.Duration // this long
	}
	cases := []moment{
		{"claim-lease", 1, 0}, {"claim-lease", 3, 0}, {"claim-lease", 6, 0}, {"claim-lease", 9, 0},
		{"dead-letter", 7, 0}, {"fan-out", 2, 0}, {"fan-out", 20, 0}, {"fan-out", 28, 0},
		{"direct-call", 3, 0}, {"direct-call", 30, 0}, {"ack-timing", 9, 0}, {"rebalance", 2, 0}, {"rebalance", 40, 0},
		{"partitions", 1, 0}, {"consumer-group", 17, 0},
	}
	for ms := range 12 {
		cases = append(cases, moment{"partitions", 0, time.Duration(10*ms) * time.Millisecond})
	}
	for ms := range 25 { // most of them while the stage is set up
		cases = append(cases, moment{"fan-out", 0, time.Duration(5*ms) * time.Millisecond})
	}
	name := func(m moment) string { return fmt.Sprintf("%s, event %d, %s", m.lesson, m.event, m.after) }
	together(t, atOnce, cases, name, func(t *testing.T, m moment) {
		ctx, cancel := context.WithCancelCause(within(t))
		defer cancel(nil)
		r := newRig(t)
		r.Settings = named(t, m.lesson).Settings
		r.Emit = func(e event.Event) {
			r.story.Add(e)
			if r.story.Len() == m.event {
				cancel(errEnough)
			}
		}
		if m.event == 0 {
			defer time.AfterFunc(m.after, func() { cancel(errEnough) }).Stop()
		}
		v, err := named(t, m.lesson).Run(ctx, r.Config)
		if !errors.Is(err, errEnough) || v.Status != "" {
			t.Errorf("%v, and %s", err, explain(v))
		}
		r.left(t, nothing)
	})
}

// TestRun_keeps its queues and keys when told to, and then they have no end of their
// own; else they have one while it runs, for the case that it is killed.
func TestRun_keeps(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		r := newRig(t)
		r.Settings, r.Keep = event.Settings{Idempotency: true}, keep
		ctx := within(t)
		conn := r.dial(t, ctx)
		expires := leastExpiry
		if keep {
			expires = 0
		}
		pushOnly := r.topology(expires)
		pushOnly.Channels = []notify.Channel{notify.Push}
		r.Emit = func(e event.Event) {
			r.story.Add(e)
			if e.Kind == event.Crash {
				if err := conn.Declare(ctx, pushOnly); err != nil { // equal, or it is refused
					t.Errorf("keep %v: %v", keep, err)
				}
			}
		}
		if v := r.run(t, named(t, "crash-claim")); v.Status != Held {
			t.Fatal(explain(v))
		}
		r.left(t, remains(keep))
		if !keep {
			continue
		}
		for _, q := range pushOnly.QueueNames() {
			if _, _, ok, err := conn.Ready(ctx, q); !ok || err != nil {
				t.Errorf("%s was not kept: %v", q, err)
			}
		}
		for _, key := range r.keys(t, ctx) {
			if ttl, err := r.redis(t).PTTL(ctx, key).Result(); err != nil || ttl <= 0 || ttl > retention {
				t.Errorf("%s is kept for %s: %v", key, ttl, err)
			}
		}
		r.clean(t, ctx)
	}
}

// TestRun_workers_make_no_queues: one that is ended while it does so could have them made
// after the clean-up. Here one starts again when a queue is gone.
func TestRun_workers_make_no_queues(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Settings, r.Keep = event.Settings{Idempotency: true}, true
	ctx := within(t)
	conn := r.dial(t, ctx)
	unused := r.topology(0).Retry(notify.Push, delays()[0])
	r.Emit = func(e event.Event) {
		r.story.Add(e)
		if e.Kind == event.Crash {
			if err := conn.Delete(ctx, unused); err != nil {
				t.Error(err)
			}
		}
	}
	if v := r.run(t, named(t, "crash-claim")); v.Status != NotHeld { // it is missed
		t.Error(explain(v))
	}
	if _, _, there, err := conn.Ready(ctx, unused); there || err != nil {
		t.Errorf("%s was made anew: %t, %v", unused, there, err)
	}
	r.clean(t, ctx)
}

func (r rig) clean(t testing.TB, ctx context.Context) {
	t.Helper()
	_, err := idem.Forget(ctx, r.redis(t), r.Namespace)
	if err = errors.Join(err, r.dial(t, ctx).Delete(ctx, r.topology(0).QueueNames()...)); err != nil {
		t.Error(err)
	}
}

// TestRun_leaves_what_is_somebody_elses: a namespace in which somebody has kept
// something is not played in, and not cleaned up either. (mozilla-services/socorro#1926)
func TestRun_leaves_what_is_somebody_elses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := within(t)
	conn := r.dial(t, ctx)
	if err := conn.Declare(ctx, r.topology(0)); err != nil {
		t.Fatal(err)
	}
	key := r.Namespace.Key("notification:a:push:7")
	if err := r.redis(t).Set(ctx, key, "theirs", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	v, err := named(t, "crash").Run(ctx, r.Config)
	var conflict *broker.ConflictError
	if !errors.As(err, &conflict) {
		t.Errorf("%v, and %s", err, explain(v))
	}
	for _, q := range r.topology(0).QueueNames() {
		if _, _, ok, err := conn.Ready(ctx, q); !ok || err != nil {
			t.Errorf("%s is gone: %v", q, err)
		}
	}
	if got, err := r.redis(t).Get(ctx, key).Result(); got != "theirs" || err != nil {
		t.Errorf("%s = %q, %v", key, got, err)
	}
	r.clean(t, ctx)
}

// TestRun_needs_a_namespace, since it deletes all that is in it.
func TestRun_needs_a_namespace(t *testing.T) {
	t.Parallel()
	cfg := Config{AMQPURL: "amqp://127.0.0.1:1/", RedisURL: "redis://127.0.0.1:1/0", Timeout: deadline}
	v, err := named(t, "crash").Run(t.Context(), cfg)
	if want := "a scenario needs a namespace of its own"; err == nil || err.Error() != want || v.Status != "" {
		t.Errorf("%v, and %s", err, explain(v))
	}
}

// TestRun_without_servers is an error and no verdict.
func TestRun_without_servers(t *testing.T) {
	t.Parallel()
	for _, away := range []string{"RabbitMQ", "Redis"} {
		r := newRig(t)
		if away == "Redis" {
			r.RedisURL = "redis://127.0.0.1:1/0"
		} else {
			r.AMQPURL = "amqp://127.0.0.1:1/"
		}
		v, err := named(t, "crash").Run(within(t), r.Config)
		var rabbitmq *broker.UnreachableError
		var redis *idem.UnreachableError
		if away == "Redis" && !errors.As(err, &redis) || away == "RabbitMQ" && !errors.As(err, &rabbitmq) || v.Status != "" {
			t.Errorf("without %s: %v, and %s", away, err, explain(v))
		}
		here := newRig(t) // to look with
		here.Namespace = r.Namespace
		here.left(t, nothing)
	}
}
