package main

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"notifylab/internal/event"
)

// journal is what the events command has, as objects.
func (c corner) journal(args ...string) []event.Event {
	c.t.Helper()
	r := c.run(append([]string{"events", "-o", "json"}, args...)...)
	r.wantStatus(0)
	return r.events()
}

func of(all []event.Event, kind event.Kind) []event.Event {
	return slices.DeleteFunc(slices.Clone(all), func(e event.Event) bool { return e.Kind != kind })
}

func TestEvents(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	if r := c.run("events"); r.wait() != 0 || r.all() != "stdout:\n\nstderr:\n" {
		t.Error(r.all())
	}
	follow, objects := c.start("events", "-f"), c.start("events", "--follow", "-o", "json", "--id", "n2")
	// As in several panes.
	var workers []*running
	for _, args := range []string{"worker push", "worker push", "worker email"} {
		w := c.start(strings.Fields(args)...)
		w.awaitLine("READY")
		workers = append(workers, w)
	}
	for _, id := range []string{"n1", "n2", "n3"} {
		c.run("produce", "--id", id).wantStatus(0)
	}
	for _, channel := range []string{"push", "email"} {
		follow.awaitLine("SENT "+channel+" notif:n3", channel+"-worker-")
		objects.awaitLine(`"sent"`, `"n2"`, channel)
	}
	for _, name := range []string{"push-worker-1", "push-worker-2", "email-worker-1"} {
		follow.awaitLine(name, "READY")
	}
	for _, w := range workers {
		w.stop()
	}
	follow.stop()
	objects.stop()
	for _, e := range objects.events() {
		if e.ID != "n2" {
			t.Errorf("of another: %+v", e)
		}
	}

	// All that the workers have printed, and each worker's in its order.
	var all []event.Event
	eventually(t, "the journal", func() string { // Redis may have the last yet to do
		all = c.journal()
		for i, w := range workers {
			source := []string{"push-worker-1", "push-worker-2", "email-worker-1"}[i]
			var got []string
			for _, e := range all {
				if e.Source == source && !e.Detail {
					got = append(got, string(e.Kind)+" "+e.ID)
				}
			}
			if len(got) != len(w.lines()) {
				return fmt.Sprintf("%s: %d in the journal, want %d: %q\n%s", source, len(got), len(w.lines()), got, w.all())
			}
		}
		return ""
	})
	if n := len(of(all, event.Sent)); n != 6 {
		t.Errorf("%d sent", n)
	}
	ids := func(args ...string) string {
		var ids []string
		for _, e := range of(c.journal(args...), event.Sent) {
			if !slices.Contains(ids, e.ID) {
				ids = append(ids, e.ID)
			}
		}
		return strings.Join(ids, " ")
	}
	for args, want := range map[string]string{
		"": "n1 n2 n3", "--id n2": "n2", "--id n": "", "--since 1h": "n1 n2 n3", "--since 1h --id n3": "n3", "--since 0s": "",
		"--since 2999-01-01T00:00:00Z": "", "--since " + of(all, event.Ready)[0].Time.Format(time.RFC3339): "n1 n2 n3",
	} {
		if got := ids(strings.Fields(args)...); got != want {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
	last := c.journal("--limit", "2")
	if len(last) != 2 || last[1].Time != all[len(all)-1].Time || last[0].Time != all[len(all)-2].Time {
		t.Errorf("the last two are %+v", last)
	}
	r := c.run("events", "--id", "n1", "--limit", "1")
	r.wantStatus(0)
	if len(r.lines()) > 1 {
		t.Error(r.all())
	}
}

// The journal has a worker's last line, though it is killed by itself at once; and
// what supervises says what became of it.
func TestEvents_crash_is_there_before_the_crash(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	r := c.start("supervise", "push=1", "--", "--prefetch", "1", "--concurrency", "1")
	r.awaitLine("READY")
	points := []string{"after-receive", "before-send", "before-ack", "after-ack"}
	const n = 20
	for i := range n {
		c.run("produce", "--channel", "push", "--id", fmt.Sprint("n", i), "--crash-at", points[i%len(points)]).wantStatus(0)
	}
	r.awaitLines(n, "RESTART")
	r.awaitLines(n+1, "READY")
	r.stop()
	var all, restarts []event.Event
	eventually(t, "the journal", func() string { // Redis may have the last yet to do
		all = c.journal()
		crashes, ends := of(all, event.Crash), of(all, event.Exited)
		if restarts = of(all, event.Restart); len(crashes) != n || len(restarts) != n || len(ends) != 1 {
			return fmt.Sprintf("%d crashes, %d restarts, %d ends", len(crashes), len(restarts), len(ends))
		}
		return ""
	})
	dead := map[int]string{}
	for _, e := range all {
		if e.Source == "push-worker-1" && dead[e.PID] != "" {
			t.Errorf("after its crash at %s the dead says %s of %s", dead[e.PID], e.Kind, e.ID)
		}
		if e.Kind == event.Crash {
			dead[e.PID] = e.ID
		}
	}
	if len(dead) != n {
		t.Errorf("%d of %d crashes are there", len(dead), n)
	}
	for _, e := range restarts {
		if e.Source != "supervisor" || e.Owner != "push-worker-1" || e.Exit != "killed" {
			t.Errorf("%+v", e)
		}
	}
}

func TestEvents_journal_off(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	r := c.start("supervise", "push=1", "--", "--journal", "off")
	r.awaitLine("READY")
	c.run("produce", "--mode", "crash").wantStatus(0)
	r.awaitLine("RESTART")
	r.awaitLines(2, "SENT")
	eventually(t, "queues", func() string {
		if all := c.look("queue", "queues"); all[c.ns+".notify.push"]["consumers"] != 1.0 {
			return fmt.Sprint(all)
		}
		return ""
	})
	r.stop()
	if n := c.store().Exists(patience(t), c.key("lab:journal")).Val(); n != 0 {
		t.Error("there is a journal")
	}
}

// Redis that stands still slows no send of a worker that needs none, and what was
// not written down meanwhile is, later.
func TestEvents_Redis_away_slows_no_send(t *testing.T) {
	t.Parallel()
	c, redis := newCorner(t).withRedis()
	w := c.start("worker", "push", "--idempotency", "off", "--claim-lease", "off", "--provider-key", "off", "-o", "json")
	w.awaitLine(`"ready"`)
	eventually(t, "READY is not journalled", func() string {
		if len(of(c.journal(), event.Ready)) == 0 {
			return "yet"
		}
		return ""
	})
	redis.signal(syscall.SIGSTOP)
	const n = 2000
	c.publishN(n)
	w.awaitLines(n, `"sent"`)
	all := w.events()
	sent := of(all, event.Sent)
	// A command's time-out for each would make it 125 s and more.
	if took := sent[n-1].Time.Sub(of(all, event.Received)[0].Time); took > time.Minute {
		t.Errorf("%d sends took %v", n, took)
	}
	redis.signal(syscall.SIGCONT)
	eventually(t, "not journalled", func() string {
		ids := map[string]bool{}
		for _, e := range of(c.journal("--limit", "10000"), event.Sent) {
			ids[e.ID] = true
		}
		if len(ids) != n {
			return fmt.Sprintf("%d of %d", len(ids), n)
		}
		return ""
	})
	// Nor does it keep a worker from ending.
	redis.signal(syscall.SIGSTOP)
	within(t, 10*time.Second, w.stop)
	redis.signal(syscall.SIGCONT)
}

func TestEvents_followed_while_Redis_is_away(t *testing.T) {
	t.Parallel()
	c, redis := newCorner(t).withRedis("--appendonly", "yes")
	r := c.start("events", "-f")
	w := c.start("worker", "push")
	w.awaitLine("READY")
	r.awaitLine("READY")
	redis.kill()
	r.awaitError("follow journal: ", "; trying again")
	redis.start()
	c.run("produce", "--channel", "push", "--id", "n1").wantStatus(0)
	r.awaitLine("SENT push notif:n1")
	w.stop()
	r.stop()
	if len(r.errors()) != 1 || len(having(r.lines(), "SENT push notif:n1")) != 1 {
		t.Error(r.all())
	}
}

// Nobody's words reach the terminal as they are.
func TestEvents_are_escaped(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	w := c.start("worker", "push")
	w.awaitLine("READY")
	c.run("produce", "--channel", "push", "--text", "\x1b[31mred\u202e").wantStatus(0)
	w.awaitLine("SENT")
	w.stop()
	var r *running
	eventually(t, "it is not in the journal", func() string {
		r = c.run("events")
		if r.wantStatus(0); len(having(r.lines(), "SENT")) == 0 {
			return r.all()
		}
		return ""
	})
	if strings.ContainsAny(r.text(), "\x1b\u202e") || len(having(r.lines(), `"\x1b[31mred\u202e"`)) != 1 {
		t.Errorf("%q", r.text())
	}
	if sent := of(c.journal(), event.Sent); len(sent) != 1 || sent[0].Text != "\x1b[31mred\u202e" {
		t.Errorf("JSON has %+v", sent)
	}
}
