package scenario

import (
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

// TestRun_a_message_vanishes: what the broker has lost is not held, though the play waits
// for it in vain: when the workers are gone the queues tell.
func TestRun_a_message_vanishes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Timeout = aWhile
	conn, err := amqp.Dial(r.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
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
	v := r.run(t, named(t, "lease/before-send/kill"))
	if v.Status != NotHeld || v.Outcome != Lost {
		t.Error(explain(v))
	}
}

// What the broker still has, and nobody takes, is inconclusive.
func TestRun_a_message_is_left(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Timeout = aWhile
	right, once := r.Worker, t.TempDir()+"/once"
	r.Worker = func(c notify.Channel) []string { // it does not come again
		return append([]string{"sh", "-c", `mkdir ` + once + ` && exec "$0" "$@" || exec sleep 1000`}, right(c)...)
	}
	v := r.run(t, named(t, "lease/before-send/kill"))
	if v.Status != Inconclusive || !strings.Contains(v.Why, "-1 did not come to its end on push within 20s") {
		t.Error(explain(v))
	}
}

// aWhile is in what time a run comes to the point of a crash, on a busy machine, too.
const aWhile = 20 * time.Second
