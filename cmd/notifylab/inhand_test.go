package main

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"notifylab/internal/lab"
	"notifylab/internal/notify"
)

func TestQueues(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	if r := c.run("queues"); r.wait() != 0 || r.text() != "no queues: nobody has declared any" {
		t.Error(r.all())
	}
	if r := c.run("queues", "-o", "json"); r.wait() != 0 || r.text() != "" {
		t.Error(r.all())
	}
	c.run("produce", "--channel", "push", "--count", "3").wantStatus(0)
	work, letters := c.ns+".notify.push", c.ns+".push.dlq"
	all := c.look("queue", "queues")
	if len(all) != 2 || all[work]["ready"] != 3.0 || all[work]["in_hand"] != 0.0 || all[work]["consumers"] != 0.0 || all[work]["type"] != "quorum" ||
		all[work]["kind"] != "queue" || all[letters]["ready"] != 0.0 {
		t.Errorf("got %v", all)
	}
	c.put(letters, "x", "y")
	r := c.run("queues")
	r.wantStatus(0)
	if lines := r.lines(); len(lines) != 3 || strings.Join(strings.Fields(lines[0]), " ") != "queue ready in hand consumers type" ||
		strings.Join(strings.Fields(lines[1]), " ") != "notify.push 3 0 0 quorum" ||
		strings.Join(strings.Fields(lines[2]), " ") != "push.dlq 2 0 0 quorum notifylab dlq list push" {
		t.Error(r.all())
	}
	// One that isn't there isn't listed, whatever is noted; one that is of another
	// type is what it is noted as.
	if err := c.connection().Delete(patience(t), work); err != nil {
		t.Fatal(err)
	}
	if all := c.look("queue", "queues"); len(all) != 1 || all[letters] == nil {
		t.Errorf("got %v", all)
	}
	classic := newCorner(t)
	w := classic.start("worker", "email", "--queue-type", "classic")
	w.awaitLine("READY")
	eventually(t, "though the worker is ready", func() string {
		if all := classic.look("queue", "queues"); len(all) != 4 || all[classic.ns+".notify.email"]["type"] != "classic" || all[classic.ns+".notify.email"]["consumers"] != 1.0 {
			return fmt.Sprint(all)
		}
		return ""
	})
	w.stop()
}

func TestQueues_watched(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	c.run("produce", "--channel", "push").wantStatus(0)
	work := c.ns + ".notify.push"
	text, objects := c.start("queues", "-w"), c.start("queues", "-w", "-o", "json")
	text.awaitLine("  notify.push  1 ready, 0 in hand, 0 consumers, quorum")
	objects.awaitLine(work, `"ready":1`)
	c.run("produce", "--channel", "push").wantStatus(0)
	text.awaitLine("  notify.push  2 ready, 0 in hand")
	objects.awaitLine(work, `"ready":2`)
	if err := c.connection().Delete(patience(t), work); err != nil {
		t.Fatal(err)
	}
	text.awaitLine("  notify.push  gone")
	objects.awaitLine(`"gone":true`, `"kind":"queue"`, `"queue":"`+work+`"`)
	text.stop()
	objects.stop()
	last := ""
	for _, l := range having(objects.lines(), work) {
		if l == last {
			t.Errorf("no change, and a line: %s", l)
		}
		last = l
	}
	if len(having(text.lines(), "push.dlq")) != 1 { // which has not changed
		t.Error(text.all())
	}
}

// awaitQueue waits until the queues command says so of push, and expects that it
// never says more in hand than there can be. Consumers less than 0: never mind, as
// while one is cancelled, whom a quorum queue counts until all is settled.
func (c corner) awaitQueue(ready, inHand, consumers int) {
	c.t.Helper()
	eventually(c.t, "notify.push", func() string {
		q := c.look("queue", "queues")[c.ns+".notify.push"]
		if consumers < 0 {
			q["consumers"] = consumers
		}
		got := fmt.Sprintf("%v ready, %v in hand, %v consumers", q["ready"], q["in_hand"], q["consumers"])
		if n, _ := q["in_hand"].(float64); n > 8 {
			c.t.Errorf("%s, and one worker can have 8", got)
		}
		if want := fmt.Sprintf("%d ready, %d in hand, %d consumers", ready, inHand, consumers); got != want {
			return got + ", want " + want
		}
		return ""
	})
}

// What a worker has in hand is what the broker has handed over, begun or not; it is
// gone when the worker is, and not counted twice when another takes its place.
func TestQueues_in_hand(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	g := newGate(t)
	worker := func() *running {
		w := c.start("worker", "push", "--prefetch", "8", "--concurrency", "2", "--provider-url", g.url, "--send-timeout", "50s", "--lease", "1m")
		w.awaitLine("READY")
		return w
	}
	c.publishN(12)
	w := worker()
	c.awaitQueue(4, 8, 1)
	w.signal(syscall.SIGKILL)
	w.wait()
	w = worker()
	eventually(t, "the new one has not said", func() string {
		workers, err := lab.NewNotes(c.store(), notify.Namespace(c.ns), 0).Workers(patience(t))
		if !slices.ContainsFunc(workers, func(n lab.WorkerNote) bool { return n.PID == w.cmd.Process.Pid && n.InHand == 8 }) {
			return fmt.Sprint(workers, err)
		}
		return ""
	})
	c.awaitQueue(4, 8, 1)
	w.signal(syscall.SIGKILL)
	w.wait()
	c.awaitQueue(12, 0, 0)
	w = worker()
	c.awaitQueue(4, 8, 1)
	close(g.open)
	w.awaitLine("SENT")
	c.awaitQueue(0, 0, 1)
	w.stop()
	if all, err := c.store().SMembers(patience(t), c.key("lab:workers")).Result(); len(all) != 0 || err != nil {
		t.Errorf("%q are remembered, %v", all, err)
	}
	c.awaitQueue(0, 0, 0)
}

// A worker that was told to stop has in hand what it has until it is settled.
func TestQueues_in_hand_of_a_worker_that_stops(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	g := newGate(t)
	w := c.start("worker", "push", "--prefetch", "2", "--concurrency", "2", "--provider-url", g.url, "--send-timeout", "50s", "--lease", "1m", "--grace", "40s")
	w.awaitLine("READY")
	c.publishN(2)
	c.awaitQueue(0, 2, 1)
	w.signal(syscall.SIGTERM)
	c.awaitQueue(0, 2, -1)
	over := time.NewTimer(4 * time.Second) // longer than its last word before would be believed
	defer over.Stop()
	<-over.C
	c.awaitQueue(0, 2, -1)
	close(g.open)
	w.wantStatus(0)
	if n := c.ready(c.names().Work(notify.Push)); n != 0 {
		t.Errorf("%d are left", n)
	}
}
