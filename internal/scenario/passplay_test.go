package scenario

import (
	"context"
	"strings"
	"testing"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/lab"
	"notifylab/internal/passes"
)

// TestQueueToLog plays the second chapter.
func TestQueueToLog(t *testing.T) {
	t.Parallel()
	if n := len(chapter(QueueToLog)); n != 11 {
		t.Errorf("%d scenarios", n)
	}
	atOnce := atOnce
	if *update {
		atOnce = 1 // in one namespace
	}
	together(t, atOnce, chapter(QueueToLog), func(s Scenario) string { return s.Name }, func(t *testing.T, s Scenario) {
		r := newRig(t)
		if *update {
			s = updating(t, &r, s)
		}
		v := r.run(t, s)
		if v.Status != Held || v.Outcome != s.Outcome || v.Want != s.Outcome || v.Why == "" {
			t.Error(explain(v))
		}
		same(t, "what was emitted, and the verdict's events", r.story.All(), v.Events)
		if log := (&stage{}); v.Status == Held {
			for _, e := range v.Events {
				log.history.Add(e)
			}
			if line := log.lastLog(); line != "" {
				t.Errorf("a part says: %s", line)
			}
		}
		r.left(t, nothing)
	})
}

// passesLeft looks for queues, streams and exchanges of the second chapter: all that
// the story names, and the notes of streams.
func (r rig) passesLeft(t testing.TB, conn *broker.Conn, ctx context.Context, want remains) {
	t.Helper()
	names := map[string]bool{}
	for _, e := range r.story.All() {
		if strings.HasPrefix(e.Queue, r.Namespace.Queue("passes.")) {
			names[e.Queue] = true
		}
	}
	for _, q := range (passes.Log{Namespace: r.Namespace, Partitions: logPartitions}).Queues() {
		names[q] = true
	}
	for name := range names {
		if _, _, ok, err := conn.Ready(ctx, name); err != nil || ok && want == nothing {
			t.Errorf("%s is left: %v, %v", name, ok, err)
		}
	}
	lent, err := r.redis(t).ZRange(ctx, "notifylab:streams", 0, -1).Result()
	for _, name := range lent {
		if strings.HasPrefix(name, string(r.Namespace)+".") {
			t.Errorf("the note of %s is left", name)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// TestQueueToLog_without_its_parts: with parts that can't do what is to be shown no
// scenario holds, and none waits for longer than it has.
func TestQueueToLog_without_its_parts(t *testing.T) {
	t.Parallel()
	type sabotaged struct {
		Scenario
		name string
		part func(t *testing.T, right []string) []string
		says string // the verdict's reason; empty: not held is as good
	}
	var cases []sabotaged
	for _, s := range chapter(QueueToLog) {
		if s.Name == "fifo" { // its worker is that of the lessons
			continue
		}
		cases = append(cases,
			sabotaged{s, "not there", program("false"), "did not become ready: it ended with exit 1"},
			sabotaged{s, "ends at once", program("true"), "did not become ready: it ended with exit 0"},
			sabotaged{s, "another provider", adding("--provider-url ''"), ""},
			sabotaged{s, "no provider", adding("--provider-url http://127.0.0.1:1"), ""})
	}
	name := func(c sabotaged) string { return c.Scenario.Name + ", " + c.name }
	together(t, 2*atOnce, cases, name, func(t *testing.T, c sabotaged) {
		r := newRig(t)
		r.Program = c.part(t, r.Program)
		r.Timeout = 3 * time.Second
		v := r.run(t, c.Scenario)
		if v.Status == Held || c.says != "" && (v.Status != Inconclusive || !strings.Contains(v.Why, c.says)) {
			t.Error(explain(v))
		}
		r.left(t, nothing)
	})
}

// TestRun_keeps_a_log when told to, and notes its streams, so that a reset finds them.
func TestRun_keeps_a_log(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Keep = true
	ctx := within(t)
	if v := r.run(t, named(t, "two-cursors")); v.Status != Held {
		t.Fatal(explain(v))
	}
	r.left(t, queuesAndKeys)
	notes, err := lab.NewNotes(r.redis(t), r.Namespace, 0).Queues(ctx)
	if want := []lab.QueueNote{{Name: r.Namespace.Queue("passes.0"), Type: "stream"}}; err != nil || len(notes) != 1 || notes[0] != want[0] {
		t.Errorf("noted %v, %v", notes, err)
	}
	conn := r.dial(t, ctx)
	for _, q := range notes {
		if _, _, ok, err := conn.Ready(ctx, q.Name); !ok || err != nil {
			t.Errorf("%s was not kept: %v", q.Name, err)
		}
		if err := conn.Delete(ctx, q.Name); err != nil {
			t.Error(err)
		}
	}
	r.clean(t, ctx)
}

// TestRun_sweeps the streams of a run that was killed, when they are overdue, and no
// others.
func TestRun_sweeps(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), within(t)
	conn, lent := r.dial(t, ctx), lab.NewStreams(r.redis(t))
	overdue, running := r.Namespace.Queue("killed.0"), r.Namespace.Queue("running.0")
	for name, after := range map[string]time.Duration{overdue: -time.Second, running: time.Hour} {
		if err := lent.Lend(ctx, after, name); err != nil {
			t.Fatal(err)
		}
		if err := conn.DeclareStreams(ctx, broker.Stream{Name: name, MaxBytes: 1 << 20}); err != nil {
			t.Fatal(err)
		}
	}
	other := newRig(t)
	if v := other.run(t, named(t, "two-cursors")); v.Status != Held {
		t.Fatal(explain(v))
	}
	for name, want := range map[string]bool{overdue: false, running: true} {
		if _, _, there, err := conn.Ready(ctx, name); err != nil || there != want {
			t.Errorf("%s is there: %v, want %v: %v", name, there, want, err)
		}
	}
	if names, err := lent.Overdue(ctx); err != nil || len(names) > 0 {
		t.Errorf("still overdue: %v, %v", names, err)
	}
	if err := conn.Delete(ctx, running); err != nil {
		t.Error(err)
	}
	if err := lent.Returned(ctx, running); err != nil {
		t.Error(err)
	}
}
