package scenario

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// TestPredictBeside: nothing of what becomes of those beside the victim is chance.
func TestPredictBeside(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]Prediction{
		"none/after-ack/kill":          {Accepted: 2, Redelivered: true, Record: NoRecord},
		"ack-early/after-receive/kill": {Accepted: 1, Record: NoRecord},
		"ack-early/after-receive/stop": {Accepted: 2, Record: NoRecord},
		"record/before-send/kill":      {Accepted: 1, Redelivered: true, Record: Claimed},
		"record/before-send/stop":      {Accepted: 1, Redelivered: true, Record: NoRecord},
		"lease/before-ack/kill":        {Accepted: 2, Redelivered: true, Record: Done},
		"lease/after-claim/stop":       {Accepted: 2, Redelivered: true, Record: Done},
		"lease/after-copy/stop":        {Accepted: 2, Redelivered: true, Record: Done},
		"lease/mid-send/twins":         {Accepted: 2, Redelivered: true, Record: Done},
		"lease/after-claim/twins":      {Accepted: 2, Record: Done},
		"lease+key/after-receive/stop": {Accepted: 1, Redelivered: true, Record: Done},
		"key/after-send/kill":          {Accepted: 1, Redelivered: true, Record: NoRecord},
	} {
		c, err := FindCell(cell)
		if err != nil {
			t.Fatal(err)
		}
		got, err := predictBeside(c.Setting.Settings, c.Point, c.Fault)
		got = Prediction{Accepted: got.Accepted, OrTwice: got.OrTwice, Redelivered: got.Redelivered, Record: got.Record}
		if err != nil {
			t.Errorf("%s: %v", cell, err)
		}
		same(t, cell, got, want)
	}
}

// TestRun_nobody_has_it: the play waits in vain for a message that nobody has in hand.
// What the broker has lost is not held, since the queues tell when the workers are gone;
// what it still has is inconclusive.
func TestRun_nobody_has_it(t *testing.T) {
	t.Parallel()
	cases := map[string]func(*testing.T, *rig){"lost": purgedAfterCrash, "left": notStartedAgain}
	together(t, len(cases), slices.Sorted(maps.Keys(cases)), strings.Clone, func(t *testing.T, name string) {
		r := newRig(t)
		r.Timeout = 20 * time.Second // in which it comes to its point on a busy machine, too
		cases[name](t, &r)
		v := r.run(t, named(t, "lease/before-send/kill"))
		switch {
		case name == "lost" && v.Status == NotHeld && v.Outcome == Lost:
		case name == "left" && v.Status == Inconclusive && strings.Contains(v.Why, "-1 did not come to its end on push within 20s"):
		default:
			t.Error(explain(v))
		}
	})
}

func purgedAfterCrash(t *testing.T, r *rig) {
	conn, err := amqp.Dial(r.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	queue, add := r.Namespace.Queue("notify.push"), r.Emit
	r.Emit = func(e event.Event) {
		for purged := 0; e.Kind == event.Restart && purged < 2; { // nobody has it now, and the next has not begun
			n, err := ch.QueuePurge(queue, false)
			if err != nil {
				t.Error(err)
				break
			}
			purged += n
		}
		add(e)
	}
}

func notStartedAgain(t *testing.T, r *rig) {
	right, once := r.Worker, t.TempDir()+"/once"
	r.Worker = func(c notify.Channel) []string {
		return append([]string{"sh", "-c", `mkdir ` + once + ` && exec "$0" "$@" || exec sleep 1000`}, right(c)...)
	}
}
