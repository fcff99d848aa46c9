package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/provider"
	"notifylab/internal/servers"
	"notifylab/internal/servers/serverstest"
)

// A downfall is a way in which a server goes away and comes back.
type downfall struct {
	name       string
	down, back func(context.Context, servers.Server) error
}

// TestServersAway harms one pair of servers, test after test.
func TestServersAway(t *testing.T) {
	t.Parallel()
	pair := serverstest.Own(t)
	newRig := func(t *testing.T, change func(*options)) *rig {
		return newRig(t, func(o *options) {
			o.AMQP, o.Redis = pair.AMQPURL, pair.RedisURL
			if change != nil {
				change(o)
			}
		})
	}
	stop := downfall{"stopped", pair.Stop, pair.Start}
	halt := downfall{"halted", pair.Suspend, pair.Resume}

	for _, way := range []downfall{stop, halt} {
		for _, setting := range []string{"record", "lease"} {
			t.Run("nothing is sent without a claim, "+way.name+", "+setting, func(t *testing.T) {
				r := newRig(t, nil)
				r.set(map[string][]string{"record": {"idempotency"}, "lease": {"idempotency", "claim-lease"}}[setting]...)
				w := r.start()
				r.ok(way.down(r.ctx, servers.Redis))
				for i := range 5 {
					r.publish(note7(fmt.Sprint("n-", i)), "")
				}
				r.await("outage", func(e event.Event) bool { return e.Kind == event.Disconnect })
				select { // time for the others to find it out
				case <-time.After(time.Second):
				case <-r.ctx.Done():
				}
				if n := r.provider.Len(); n > 0 {
					t.Errorf("%d calls without a claim", n)
				}
				r.ok(way.back(r.ctx, servers.Redis))
				for i := range 5 {
					r.awaitKind(event.Acked, fmt.Sprint("n-", i))
				}
				w.stop()
				for i := range 5 {
					r.accepted(fmt.Sprint("n-", i), 1)
				}
				said := ""
				for _, e := range r.history.All() {
					if (e.Kind == event.Disconnect && !isOver(e)) || e.Kind == event.Reconnected {
						said += string(e.Kind) + " "
					}
				}
				// On a busy machine Redis can be late once more.
				if said != strings.Repeat("disconnect reconnected ", strings.Count(said, "reconnected ")) {
					t.Errorf("said %swant each outage's beginning and end once", said)
				}
				r.lie(nil)
			})
		}
	}

	t.Run("what was accepted is recorded when it is back", func(t *testing.T) {
		r := newRig(t, nil)
		r.setLease()
		r.provider.SetFaults(holding("n"))
		w := r.start()
		r.publish(note7("n"), "")
		r.awaitHeld("n")
		r.ok(pair.Stop(r.ctx, servers.Redis))
		r.provider.SetFaults(provider.Faults{})
		r.await("outage", func(e event.Event) bool { return e.Kind == event.Disconnect })
		r.ok(pair.Start(r.ctx, servers.Redis))
		r.awaitKind(event.Acked, "n")
		w.stop()
		r.tells("n", "received claimed sent done acked")
		if got := r.record(note7("n")); got != "done" {
			t.Errorf("record %q, want done", got)
		}
	})

	for _, tc := range []struct {
		name, story, lies string
		then              provider.Faults
	}{
		{"accepted", "received claimed sent unrecorded acked", "", provider.Faults{}},
		{"refused", "received claimed note", "work", refusing("n")},
	} {
		t.Run("told to stop meanwhile, "+tc.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.setLease()
			faults := tc.then
			faults.Gate = holding("n").Gate
			r.provider.SetFaults(faults)
			w := r.start()
			r.publish(note7("n"), "")
			r.awaitHeld("n")
			r.ok(pair.Stop(r.ctx, servers.Redis))
			r.provider.SetFaults(tc.then)
			r.await("outage", func(e event.Event) bool { return e.Kind == event.Disconnect })
			w.stop()
			r.ok(pair.Start(r.ctx, servers.Redis))
			r.tells("n", tc.story)
			r.lie(map[string]string{"n": tc.lies})
		})
	}

	t.Run("told to stop before the claim's answer", func(t *testing.T) {
		for range 5 { // a Redis that is halted for longer than it is given proves nothing
			r := newRig(t, nil)
			r.setRecord()
			w := r.start()
			halted := time.Now()
			r.ok(pair.Suspend(r.ctx, servers.Redis))
			r.publish(note7("n"), "")
			r.awaitKind(event.Received, "n")
			w.cancel()
			r.ok(pair.Resume(r.ctx, servers.Redis))
			took := time.Since(halted)
			w.stop()
			if took < idem.Timeout {
				r.tells("n", "received claimed sent acked")
				r.lie(nil)
				return
			}
		}
		t.Error("Redis was halted for too long each time")
	})

	t.Run("told to stop while it waits", func(t *testing.T) {
		r := newRig(t, nil)
		r.setRecord()
		w := r.start()
		r.ok(pair.Stop(r.ctx, servers.Redis))
		r.publish(note7("n"), "")
		r.await("outage", func(e event.Event) bool { return e.Kind == event.Disconnect })
		w.stop()
		r.ok(pair.Start(r.ctx, servers.Redis))
		r.tells("n", "received")
		r.lie(map[string]string{"n": "work"})
	})

	t.Run("the session ends meanwhile", func(t *testing.T) {
		r := newRig(t, nil)
		r.setLease()
		p := newProxy(t, r.AMQP)
		r.AMQP = p.url
		w := r.start()
		r.ok(pair.Stop(r.ctx, servers.Redis))
		r.publish(note7("n"), "")
		r.await("outage", func(e event.Event) bool { return e.Kind == event.Disconnect })
		p.cut()
		r.awaitKind(event.Dropped, "n")
		r.ok(pair.Start(r.ctx, servers.Redis))
		r.awaitKind(event.Acked, "n")
		w.stop()
		r.tells("n", "received dropped received* claimed sent done acked")
		r.accepted("n", 1)
	})

	t.Run("suspects are handled uncounted", func(t *testing.T) {
		r := newRig(t, func(o *options) { o.Flags = &event.Settings{} })
		r.publish(note7("n"), "")
		for range 3 {
			r.order(1) // handed over and given back
		}
		r.ok(pair.Stop(r.ctx, servers.Redis))
		w := r.start()
		r.awaitKind(event.Acked, "n")
		w.stop()
		r.ok(pair.Start(r.ctx, servers.Redis))
		r.tells("n", "received* note sent acked note") // not counted, not forgotten
		r.accepted("n", 1)
	})

	// The broker ends the channel of who has a message in hand for too long; that is
	// no silent end. (rabbitmq/rabbitmq-server#12857, rabbitmq/amqp091-go#241)
	t.Run("RabbitMQ loses patience with a slow send", func(t *testing.T) {
		env := func(timeout, tick string) {
			_, err := pair.Rabbitmqctl(t.Context(), "eval", "application:set_env(rabbit, consumer_timeout, "+timeout+"), application:set_env(rabbit, channel_tick_interval, "+tick+").")
			if err != nil {
				t.Fatal(err)
			}
		}
		env("2000", "500")
		defer env("1800000", "60000")
		r := newRig(t, nil)
		r.setLease()
		r.provider.SetFaults(holding("n"))
		w := r.start()
		r.publish(note7("n"), "")
		over := r.await("the end of the session", isOver)
		if !strings.Contains(over.Reason, "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out") {
			t.Errorf("over because %s", over.Reason)
		}
		r.awaitKind(event.LeaseBusy, "n")
		r.publish(note7("n-2"), "")
		r.awaitKind(event.Acked, "n-2")
		r.provider.SetFaults(provider.Faults{})
		r.awaitKind(event.Acked, "n")
		w.stop()
		r.accepted("n", 1)
		r.lie(nil)
	})

	// A copy of what was acked early waits for the end of the alarm, whichever session it
	// is tried by, and is tried no more often than any other.
	t.Run("an alarm, and the next session", func(t *testing.T) {
		var tries []time.Time
		enough := make(chan struct{})
		r := newRig(t, func(o *options) {
			// rabbitmqctl can take a minute on a busy machine.
			o.AckEarly, o.SendTimeout = true, limit
			o.Asked = func(what, id string) { // of n-2 one at a time
				if what == "park" && id == "n-2" && len(tries) < 3 {
					if tries = append(tries, time.Now()); len(tries) == 3 {
						close(enough)
					}
				}
			}
		})
		p := newProxy(t, r.AMQP)
		r.AMQP = p.url
		faults := provider.Faults{Refuse: append(refusing("n-1").Refuse, refusing("n-2").Refuse...)}
		held := faults
		held.Gate = append(holding("n-1").Gate, holding("n-2").Gate...)
		r.provider.SetFaults(held)
		w := r.start()
		r.publish(note7("n-1"), "")
		r.publish(note7("n-2"), "")
		r.awaitHeld("n-1")
		r.awaitHeld("n-2")
		watermark := func(part string) {
			_, err := pair.Rabbitmqctl(r.ctx, "set_vm_memory_high_watermark", part)
			r.ok(err)
		}
		watermark("0.0000001")
		lift := sync.OnceFunc(func() { watermark("0.4") })
		defer lift()
		n := r.history.Len()
		p.cut()
		r.awaitFrom(n, "the next session", func(e event.Event) bool { return e.Kind == event.Ready })
		// RabbitMQ takes one message of each connection, the one that makes it a publisher.
		held.Gate = holding("n-2").Gate
		r.provider.SetFaults(held)
		r.await("the first copy", func(e event.Event) bool {
			return e.ID == "n-1" && (e.Kind == event.DeadLetter || e.Kind == event.CopyWaiting)
		})
		r.provider.SetFaults(faults)
		r.awaitKind(event.CopyWaiting, "n-2")
		select {
		case <-enough:
		case <-r.ctx.Done():
			t.Fatal("the copy is not tried again")
		}
		for i, wait := range []time.Duration{tries[1].Sub(tries[0]), tries[2].Sub(tries[1])} {
			if least := time.Second << i; wait < least {
				t.Errorf("wait %d took %v, want %v at least", i+1, wait, least)
			}
		}
		lift()
		r.awaitKind(event.DeadLetter, "n-1")
		r.awaitKind(event.DeadLetter, "n-2")
		w.stop()
		r.lie(map[string]string{"n-1": "dlq", "n-2": "dlq"})
	})

	// A Redis that takes no more writes is as good as away. (taskforcesh/bullmq#2215)
	t.Run("Redis is full", func(t *testing.T) {
		r := newRig(t, nil)
		r.setLease()
		w := r.start()
		r.ok(r.redis.ConfigSet(r.ctx, "maxmemory", "1").Err())
		r.publish(note7("n"), "")
		if e := r.await("outage", func(e event.Event) bool { return e.Kind == event.Disconnect }); !strings.Contains(e.Reason, "OOM") {
			t.Errorf("said %s", e.Reason)
		}
		r.accepted("n", 0)
		r.ok(r.redis.ConfigSet(r.ctx, "maxmemory", "0").Err())
		r.awaitKind(event.Acked, "n")
		w.stop()
		r.tells("n", "received claimed sent done acked")
		r.lie(nil)
	})

	t.Run("RabbitMQ is restarted", func(t *testing.T) {
		r := newRig(t, func(o *options) { o.Prefetch, o.Concurrency = 5, 2 })
		r.setLease()
		r.provider.SetFaults(holding("n-0"))
		w := r.start()
		for i := range 5 {
			r.publish(note7(fmt.Sprint("n-", i)), "")
		}
		r.awaitHeld("n-0")
		for i := range 4 {
			r.awaitKind(event.Acked, fmt.Sprint("n-", i+1))
		}
		r.ok(pair.Stop(r.ctx, servers.RabbitMQ))
		r.provider.SetFaults(provider.Faults{})
		r.awaitKind(event.Dropped, "n-0") // sent and recorded, not acked
		n := r.history.Len()
		r.ok(pair.Start(r.ctx, servers.RabbitMQ))
		back := time.Now()
		ready := r.awaitFrom(n, "the next session", func(e event.Event) bool { return e.Kind == event.Ready })
		if late := ready.Time.Sub(back); late > 20*time.Second {
			t.Errorf("the next session came %v after the broker", late)
		}
		r.tells("n-0", "received claimed sent done dropped received* duplicate acked")
		_ = r.conn.Close()
		r.connect()
		w.stop()
		for i := range 5 {
			r.accepted(fmt.Sprint("n-", i), 1)
		}
		if n := r.count(isOver); n != 1 {
			t.Errorf("said %d times that the session is over, want once", n)
		}
		r.lie(nil)
	})
}

// A claim whose answers are lost is the same claim when it is made again, and is
// taken back when it is given up: in state claimed it would drop the redelivery.
func TestRedis_LosesAnswers(t *testing.T) {
	t.Parallel()
	for _, told := range []bool{false, true} {
		t.Run(fmt.Sprintf("told to stop %v", told), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(o *options) { o.Flags = &event.Settings{Idempotency: true} })
			p := newProxy(t, r.Redis)
			r.Redis = p.url
			w := r.start()
			r.publish(note7("n-1"), "") // there is a connection now
			r.awaitKind(event.Acked, "n-1")
			p.mute.Store(true)
			r.publish(note7("n-2"), "")
			r.await("outage", func(e event.Event) bool { return e.Kind == event.Disconnect })
			if got := r.record(note7("n-2")); got != "claimed" {
				t.Errorf("record %q, want claimed: nobody heard of it", got)
			}
			if told {
				w.cancel()
			}
			p.mute.Store(false)
			if told {
				w.stop()
				w = r.start()
			}
			r.awaitKind(event.Sent, "n-2")
			w.stop()
			r.accepted("n-2", 1)
			r.lie(nil)
		})
	}
}
