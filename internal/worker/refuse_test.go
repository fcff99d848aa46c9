package worker_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
)

// What is no notification is parked at once, its bytes kept, and those behind it
// are sent. A crash point that it arms is not for it. (ThreeDotsLabs/watermill#184)
func TestMalformed(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"none", "lease", "early"} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(o *options) { o.Prefetch, o.Concurrency, o.AckEarly = 1, 1, setting == "early" })
			if setting == "lease" {
				r.setLease()
			}
			bodies := []string{
				"", "no JSON", `"n-1"`, "[]", "{}", "null", `{"id":"n-1","user":"7","text":"x"`,
				`{"user":"7","text":"x"}`, `{"id":1,"user":"7","text":"x"}`, `{"id":"a:b","user":"7","text":"x"}`,
				`{"id":"n-1","user":"","text":"x"}`, "{\"id\":\"\u0007\",\"user\":\"7\",\"text\":\"x\"}",
			}
			var messages []broker.Message
			for i, body := range bodies {
				messages = append(messages, broker.Message{Queue: r.topology().Work(notify.Push), ID: fmt.Sprint(i), Body: []byte(body), Crash: "after-receive,always"})
			}
			r.publishAll(append(messages, broker.NewMessage(r.topology().Names, notify.Push, behind, ""))...)
			w := r.start()
			r.awaitKind(event.Sent, behind.ID)
			w.stop()
			each := "received parked acked "
			if setting == "early" {
				each = "received acked parked "
			}
			if got, want := r.story("")+" ", "ready "+strings.Repeat(each, len(bodies)); got != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
			parked := r.parked()
			for i, p := range parked {
				if string(p.Body) != bodies[i] || p.Reason != "malformed" || p.Attempts != 0 {
					t.Errorf("parked %d: %q, %s after %d attempts, want %q", i, p.Body, p.Reason, p.Attempts, bodies[i])
				}
			}
			if len(parked) != len(bodies) {
				t.Errorf("%d parked, want %d", len(parked), len(bodies))
			}
			if n := r.provider.Len(); n != 1 {
				t.Errorf("%d calls at the provider, want 1", n)
			}
		})
	}
}

// What is refused for now is tried three times, then parked, body byte for byte,
// whether or not the queue counts deliveries. (rabbitmq/rabbitmq-server#2013)
func TestRetries(t *testing.T) {
	t.Parallel()
	for setting, story := range map[string]string{
		"none":   "received retry acked received retry acked received parked acked",
		"record": "received claimed retry acked received claimed retry acked received claimed parked acked",
		"lease":  "received claimed retry acked received claimed retry acked received claimed parked acked",
		"early":  "received acked retry received acked retry received acked parked",
		// the lease, on another type of queue
		"classic": "received claimed retry acked received claimed retry acked received claimed parked acked",
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			// One handler: a copy comes back before its maker says the next word,
			// now and then.
			r := newRig(t, func(o *options) {
				o.Concurrency, o.AckEarly = 1, setting == "early"
				if setting == "classic" {
					o.Queue = broker.Classic
				}
			})
			switch setting {
			case "record":
				r.setRecord()
			case "lease", "classic":
				r.setLease()
			}
			w := r.start()
			n := notify.Notification{ID: "n-1", User: "999", Text: "hello"}
			r.publish(n, "")
			r.publish(note7("n-2"), "")
			r.tells(n.ID, story)
			r.awaitKind(event.Sent, "n-2")
			w.stop()
			for i, want := range []int64{20, 40} {
				e := r.await("retry", func(e event.Event) bool { return e.Kind == event.Retry && e.Attempt == i+1 })
				if e.BackoffMS != want || e.Attempts != 3 {
					t.Errorf("retry %d: after %d ms, of %d; want %d ms, of 3", e.Attempt, e.BackoffMS, e.Attempts, want)
				}
			}
			if got := r.provider.Refused(n.ID, notify.Push); got != 3 {
				t.Errorf("refused %d times, want 3", got)
			}
			r.lie(map[string]string{n.ID: "dlq"})
			p := r.parked()[0]
			if string(p.Body) != string(notify.Encode(n)) || p.Reason != "refused" || p.Attempts != 3 || p.First != "400 invalid device token" {
				t.Errorf("parked %+v", p)
			}
			if got := r.record(n); got != "" {
				t.Errorf("record %s, want none", got)
			}
		})
	}
}

// The dead letters are gone: the copy comes back, the original waits unacked and
// holds up nobody, and is parked once when they are there again.
func TestCopy_WaitsForItsQueue(t *testing.T) {
	t.Parallel()
	for setting, story := range map[string]string{
		"lease": "received claimed returned parked acked",
		"early": "received acked returned parked",
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(o *options) { o.Prefetch, o.Concurrency, o.AckEarly = 2, 1, setting == "early" })
			r.setLease()
			r.provider.SetFaults(provider.Faults{Refuse: []provider.Refusal{{Target: provider.Target{ID: "n-1"}, Status: 410}}})
			w := r.start()
			r.ok(r.conn.Delete(r.ctx, r.topology().DeadLetters(notify.Push)))
			r.publish(note7("n-1"), "")
			r.awaitKind(event.Returned, "n-1")
			r.publish(note7("n-2"), "")
			r.awaitKind(event.Sent, "n-2")
			n := r.history.Len()
			r.awaitFrom(n, "returned again", is(event.Returned, "n-1"))
			r.ok(r.conn.Declare(r.ctx, r.topology()))
			r.awaitKind(event.DeadLetter, "n-1")
			w.stop()
			r.compare("n-1", untilDeclared(r.story("n-1")), story)
			var tries []time.Time
			for _, e := range r.history.All() {
				if e.ID == "n-1" && slices.Contains([]event.Kind{event.Returned, event.CopyWaiting, event.DeadLetter}, e.Kind) {
					tries = append(tries, e.Time)
				}
			}
			for i, wait := range []time.Duration{tries[1].Sub(tries[0]), tries[2].Sub(tries[1])} {
				if least := time.Second << i; wait < least {
					t.Errorf("wait %d took %v, want %v at least", i+1, wait, least)
				}
			}
			r.lie(map[string]string{"n-1": "dlq"})
			r.accepted("n-2", 1)
		})
	}
}

// untilDeclared is the compact story of a copy whose queue is gone and comes back. In
// the moment in which that is declared the broker refuses the copy and does not return
// it, which is the same wait.
func untilDeclared(story string) string {
	return compact(strings.ReplaceAll(story, "copy_waiting", "returned"))
}

// The dead letters are full and take no more: the copy is refused, the original
// waits unacked and holds up nobody, and is parked once when there is room.
// (mbroadst/qamqp#73)
func TestCopy_WaitsForRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *options) { o.Prefetch, o.Concurrency = 2, 1 })
	r.setLease()
	r.provider.SetFaults(refusing("n-1"))
	w := r.start()
	r.fill(r.topology().DeadLetters(notify.Push))
	r.publish(note7("n-1"), "")
	r.awaitKind(event.CopyWaiting, "n-1")
	r.publish(note7("n-2"), "")
	r.awaitKind(event.Sent, "n-2")
	r.ok(r.conn.Delete(r.ctx, r.topology().DeadLetters(notify.Push)))
	r.ok(r.conn.Declare(r.ctx, r.topology()))
	r.awaitKind(event.DeadLetter, "n-1")
	w.stop()
	r.compare("n-1", compact(r.story("n-1")), "received claimed copy_waiting parked acked")
	r.lie(map[string]string{"n-1": "dlq"})
	r.accepted("n-2", 1)
}

// fill puts in a queue's place one that is full and refuses what is published.
func (r *rig) fill(queue string) {
	r.t.Helper()
	r.ok(r.conn.Delete(r.ctx, queue))
	c, err := amqp.Dial(r.AMQP)
	r.ok(err)
	defer c.Close()
	ch, err := c.Channel()
	r.ok(err)
	_, err = ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	r.ok(err)
	r.publishAll(broker.Message{Queue: queue, ID: "full"})
}

// Neither a restart nor a crash is an attempt: three refusals are three calls,
// whatever happened in between. (hibiken/asynq#1015)
func TestRetries_CountRefusalsAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *options) { o.Concurrency = 1 }) // as above
	r.setLease()
	n := notify.Notification{ID: "n", User: "999", Text: "hello"}
	key := r.Namespace.Key(notify.Key(n, notify.Push))
	r.put(n, by(foreign, n, idem.Pending), time.Hour)
	r.publish(n, "before-send")
	for range 2 { // given back by a worker that is told to stop
		seen := r.history.Len()
		w := r.start()
		r.awaitFrom(seen, "busy", is(event.LeaseBusy, n.ID))
		w.stop()
	}
	r.ok(r.redis.Del(r.ctx, key).Err())
	p := r.supervise()
	r.awaitKind(event.DeadLetter, n.ID)
	r.stop(p)
	r.tells(n.ID, "received busy received* busy received* claimed crash received* recovered retry acked "+
		"received claimed retry acked received claimed parked acked")
	if got := r.provider.Refused(n.ID, notify.Push); got != 3 {
		t.Errorf("refused %d times, want 3", got)
	}
	r.lie(map[string]string{n.ID: "dlq"})
	if p := r.parked()[0]; p.Reason != "refused" || p.Attempts != 3 {
		t.Errorf("parked %s after %d attempts", p.Reason, p.Attempts)
	}
}

// A message that waits long holds up none that waits less: each wait has a queue of
// its own. (rabbitmq/rabbitmq-server#2007)
func TestRetries_ALongWaitHoldsUpNoShortOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *options) { o.Backoff = []time.Duration{20 * time.Millisecond, time.Hour} })
	r.provider.SetFaults(provider.Faults{Refuse: []provider.Refusal{{Target: provider.Target{ID: "long"}, Status: 503}}})
	w := r.start()
	r.publish(note7("long"), "")
	r.await("the long wait", func(e event.Event) bool { return e.Kind == event.Retry && e.BackoffMS == time.Hour.Milliseconds() })
	r.publish(notify.Notification{ID: "short", User: "999", Text: "hello"}, "")
	r.await("the end of the short one", func(e event.Event) bool { return e.ID == "short" && e.Kind == event.Retry && e.Attempt == 2 })
	w.stop()
	r.lie(map[string]string{"long": "retry", "short": "retry"})
}

// A copy of what was acked early has only the worker to wait for it: the end of a
// session does not end that.
func TestCopy_WaitsLongerThanItsSession(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *options) { o.AckEarly = true })
	p := newProxy(t, r.AMQP)
	r.AMQP = p.url
	r.provider.SetFaults(refusing("n"))
	w := r.start()
	r.ok(r.conn.Delete(r.ctx, r.topology().DeadLetters(notify.Push)))
	r.publish(note7("n"), "")
	r.awaitKind(event.Returned, "n")
	p.cut()
	r.ok(r.conn.Declare(r.ctx, r.topology()))
	r.awaitKind(event.DeadLetter, "n")
	w.stop()
	r.compare("n", untilDeclared(r.story("n")), "received acked returned parked")
	r.lie(map[string]string{"n": "dlq"})
}

// The record has become another text's, or no record at all, while this one was sent:
// nobody else sends it, so its copy is made. (A lease can end, and the same id come with
// another text.)
func TestRefused_TheRecordIsNobodysWhoWouldSendIt(t *testing.T) {
	t.Parallel()
	other := note7("n")
	other.Text = "another text"
	elsewhere := idem.Owner{Boot: "elsewhere", File: "1:1", Slot: 1, Life: "x"}
	for what, replace := range map[string]func(*rig){
		"another text": func(r *rig) { r.put(other, by(elsewhere, other, idem.Pending), time.Minute) },
		"no record":    func(r *rig) { r.put(other, "written by hand", time.Minute) },
		"no text at all": func(r *rig) {
			key := r.Namespace.Key(notify.Key(other, notify.Push))
			r.ok(r.redis.Del(r.ctx, key).Err())
			r.ok(r.redis.HSet(r.ctx, key, "by", "hand").Err())
		},
	} {
		for status, story := range map[int]string{
			200: "received claimed sent lost acked",
			410: "received claimed parked acked",
			503: "received claimed retry acked received conflict parked acked",
		} {
			t.Run(fmt.Sprint(what, ", ", status), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, func(o *options) { o.Concurrency = 1 })
				r.setLease()
				var refuse []provider.Refusal
				if status != 200 {
					refuse = []provider.Refusal{{Target: provider.Target{ID: "n"}, Status: status}}
				}
				r.provider.SetFaults(provider.Faults{Gate: holding("n").Gate, Refuse: refuse})
				w := r.start()
				r.publish(note7("n"), "")
				r.awaitHeld("n")
				replace(r)
				r.provider.SetFaults(provider.Faults{Refuse: refuse})
				r.tells("n", story)
				w.stop()
				if status == 200 {
					r.lie(nil)
				} else {
					r.lie(map[string]string{"n": "dlq"})
				}
			})
		}
	}
}
