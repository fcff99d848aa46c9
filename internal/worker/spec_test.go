package worker_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
)

// THE SPECIFICATION of the worker. A row is one message, for each of its settings
// and each of its answers:
//
//	settings   none · record · lease · key · lease+key · early (ack early) · park (lease, --on-unknown park)
//	given      what its record says before: done, claimed, pending of a live or of a dead worker, another text, garbage
//	answer     what the provider does: accepts it, refuses it with a status, accepts it and hangs or cuts the
//	           connection; nowhere: it can't be reached
//	crash      the crash point at which the worker is killed once
//	story      what workers say of it, in order; a star: redelivered
//	lies       where it is afterwards: in the retry queue, among the dead letters, in the work queue (given
//	           back when the worker stopped); empty: nowhere, it was acked
//	record     what its record says afterwards; empty: there is none
//	accepted   how often the provider accepted it, by the provider's own ledger
type row struct {
	settings, given, answer, crash string
	story, lies, record            string
	accepted                       int
}

// What a send comes to.
var sends = []row{
	{settings: "none key", answer: "200", story: "received sent acked", accepted: 1},
	{settings: "record", answer: "200", story: "received claimed sent acked", record: "claimed", accepted: 1},
	{settings: "lease lease+key park", answer: "200", story: "received claimed sent done acked", record: "done", accepted: 1},
	{settings: "early", answer: "200", story: "received acked sent", accepted: 1},

	{settings: "none key", answer: "410", story: "received parked acked", lies: "dlq"},
	{settings: "record lease lease+key", answer: "410", story: "received claimed parked acked", lies: "dlq"},
	{settings: "early", answer: "410", story: "received acked parked", lies: "dlq"},

	{settings: "none key", answer: "400 404 503 nowhere", story: "received retry acked", lies: "retry"},
	{settings: "record lease lease+key park", answer: "400 404 503 nowhere", story: "received claimed retry acked", lies: "retry"},
	{settings: "early", answer: "400 404 503 nowhere", story: "received acked retry", lies: "retry"},

	{settings: "none key", answer: "500", story: "received unknown retry acked", lies: "retry"},
	{settings: "none key", answer: "hang cut", story: "received unknown retry acked", lies: "retry", accepted: 1},
	{settings: "record lease lease+key", answer: "500", story: "received claimed unknown retry acked", lies: "retry"},
	{settings: "record lease lease+key", answer: "hang cut", story: "received claimed unknown retry acked", lies: "retry", accepted: 1},
	{settings: "early", answer: "500", story: "received acked unknown retry", lies: "retry"},
	{settings: "early", answer: "hang cut", story: "received acked unknown retry", lies: "retry", accepted: 1},
	{settings: "park", answer: "500", story: "received claimed unknown parked acked", lies: "dlq"},
	{settings: "park", answer: "hang cut", story: "received claimed unknown parked acked", lies: "dlq", accepted: 1},
}

// What a claim finds.
var verdicts = []row{
	{settings: "record lease lease+key", given: "done", story: "received duplicate acked", record: "done"},
	{settings: "record lease lease+key", given: "claimed", story: "received duplicate acked", record: "claimed"},
	{settings: "record lease lease+key", given: "text", story: "received conflict parked acked", lies: "dlq", record: "done"},
	{settings: "record lease lease+key", given: "garbage", story: "received conflict parked acked", lies: "dlq", record: "no record"},
	{settings: "record lease lease+key", given: "live", story: "received busy", lies: "work", record: "pending"},
	{settings: "record", given: "dead", story: "received recovered sent acked", record: "claimed", accepted: 1},
	{settings: "lease lease+key", given: "dead", story: "received recovered sent done acked", record: "done", accepted: 1},
	{settings: "none key", given: "done text live", story: "received sent acked", record: "as given", accepted: 1},
	{settings: "early", given: "done text live", story: "received acked sent", record: "as given", accepted: 1},
}

// What a crash leaves behind. The one after the ack is the last of each setting,
// since by then the broker may have handed over the next message.
var crashes = []row{
	{settings: "none key", crash: "after-receive", story: "received crash received* sent acked", accepted: 1},
	{settings: "record", crash: "after-receive", story: "received crash received* claimed sent acked", record: "claimed", accepted: 1},
	{settings: "lease lease+key", crash: "after-receive", story: "received crash received* claimed sent done acked", record: "done", accepted: 1},
	{settings: "early", crash: "after-receive", story: "received acked crash", accepted: 0}, // lost

	{settings: "record", crash: "after-claim", story: "received claimed crash received* duplicate acked", record: "claimed", accepted: 0}, // lost
	{settings: "lease lease+key", crash: "after-claim", story: "received claimed crash received* recovered sent done acked", record: "done", accepted: 1},

	{settings: "none key", crash: "before-send", story: "received crash received* sent acked", accepted: 1},
	{settings: "record", crash: "before-send", story: "received claimed crash received* duplicate acked", record: "claimed", accepted: 0}, // lost
	{settings: "lease lease+key", crash: "before-send", story: "received claimed crash received* recovered sent done acked", record: "done", accepted: 1},
	{settings: "early", crash: "before-send", story: "received acked crash", accepted: 0}, // lost

	{settings: "none", crash: "mid-send", story: "received crash received* sent acked", accepted: 2}, // twice
	{settings: "key", crash: "mid-send", story: "received crash received* sent acked", accepted: 1},
	{settings: "record", crash: "mid-send", story: "received claimed crash received* duplicate acked", record: "claimed", accepted: 1},
	{settings: "lease", crash: "mid-send", story: "received claimed crash received* recovered sent done acked", record: "done", accepted: 2}, // twice
	{settings: "lease+key", crash: "mid-send", story: "received claimed crash received* recovered sent done acked", record: "done", accepted: 1},
	{settings: "early", crash: "mid-send", story: "received acked crash", accepted: 1},

	{settings: "none", crash: "after-send before-ack", story: "received sent crash received* sent acked", accepted: 2}, // twice
	{settings: "key", crash: "after-send before-ack", story: "received sent crash received* sent acked", accepted: 1},
	{settings: "record", crash: "after-send before-ack", story: "received claimed sent crash received* duplicate acked", record: "claimed", accepted: 1},
	{settings: "lease", crash: "after-send", story: "received claimed sent crash received* recovered sent done acked", record: "done", accepted: 2}, // twice
	{settings: "lease+key", crash: "after-send", story: "received claimed sent crash received* recovered sent done acked", record: "done", accepted: 1},
	{settings: "lease lease+key", crash: "before-ack", story: "received claimed sent done crash received* duplicate acked", record: "done", accepted: 1},
	{settings: "early", crash: "after-send", story: "received acked sent crash", accepted: 1},

	{settings: "none key", answer: "410", crash: "before-copy", story: "received crash received* parked acked", lies: "dlq"},
	{settings: "record lease lease+key", answer: "410", crash: "before-copy", story: "received claimed crash received* claimed parked acked", lies: "dlq"},
	{settings: "early", answer: "410 400", crash: "before-copy", story: "received acked crash"}, // lost
	{settings: "none key", answer: "410", crash: "after-copy", story: "received parked crash received* parked acked", lies: "dlq dlq"},
	{settings: "record lease lease+key", answer: "410", crash: "after-copy", story: "received claimed parked crash received* claimed parked acked", lies: "dlq dlq"},
	{settings: "early", answer: "410", crash: "after-copy", story: "received acked parked crash", lies: "dlq"},
	{settings: "none key", answer: "400", crash: "before-copy", story: "received crash received* retry acked", lies: "retry"},
	{settings: "none key", answer: "400", crash: "after-copy", story: "received retry crash received* retry acked", lies: "retry retry"},
	{settings: "record lease lease+key", answer: "400", crash: "before-copy", story: "received claimed crash received* claimed retry acked", lies: "retry"},
	{settings: "record lease lease+key", answer: "400", crash: "after-copy", story: "received claimed retry crash received* claimed retry acked", lies: "retry retry"},
	{settings: "early", answer: "400", crash: "after-copy", story: "received acked retry crash", lies: "retry"},

	{settings: "none key", crash: "after-ack", story: "received sent acked crash", accepted: 1},
	{settings: "record", crash: "after-ack", story: "received claimed sent acked crash", record: "claimed", accepted: 1},
	{settings: "lease lease+key", crash: "after-ack", story: "received claimed sent done acked crash", record: "done", accepted: 1},
}

// TestSpec has a worker for each setting, which gets the messages of its rows. In
// the parts with crashes it is a process, and has one message in hand at a time, or,
// with the handlers of bench's, many others with each row's.
func TestSpec(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"none", "record", "lease", "key", "lease+key", "early", "park"} {
		t.Run(setting+"/sends and verdicts", func(t *testing.T) {
			t.Parallel()
			s := newSpec(t, setting, append(append([]row(nil), sends...), verdicts...), func(o *options) {
				o.Prefetch, o.Concurrency = 512, 256 // those of bench
				o.SendTimeout = 5 * time.Second      // what hangs takes that long
			})
			s.atOnce()
			w := s.start()
			s.check(w.stop)
		})
		if setting == "park" { // differs in sends alone
			continue
		}
		t.Run(setting+"/crashes", func(t *testing.T) {
			t.Parallel()
			s := newSpec(t, setting, crashes, func(o *options) { o.Prefetch, o.Concurrency = 1, 1 })
			s.atOnce()
			p := s.supervise()
			s.check(func() { s.stop(p) })
		})
		t.Run(setting+"/crashes, many in hand", func(t *testing.T) {
			t.Parallel()
			s := newSpec(t, setting, crashes, func(o *options) { o.Prefetch, o.Concurrency = 512, 256 })
			p := s.supervise()
			others := s.inTurn()
			s.check(func() { s.stop(p) })
			for _, n := range others {
				s.accepted(n.ID, map[string]int{"none": 2, "record": 1, "lease": 2, "key": 1, "lease+key": 1, "early": 1}[setting])
			}
		})
	}
}

// A spec is a setting's rows, each with one crash and one answer, and its message.
type spec struct {
	*rig
	rows []row
	by   []notify.Notification
}

// behind is the message that ends the waiting: when it is settled, so are all
// that can be.
var behind = notify.Notification{ID: "behind", User: "8", Text: "the one behind"}

func newSpec(t *testing.T, setting string, rows []row, change func(*options)) *spec {
	t.Helper()
	s := &spec{rig: newRig(t, func(o *options) {
		change(o)
		o.Backoff = []time.Duration{time.Hour} // what is put off stays there
		o.AckEarly, o.ParkUnknown = setting == "early", setting == "park"
	})}
	s.set(map[string][]string{
		"record": {"idempotency"}, "lease": {"idempotency", "claim-lease"}, "key": {"provider-key"},
		"lease+key": {"idempotency", "claim-lease", "provider-key"}, "park": {"idempotency", "claim-lease"},
		"early": {"idempotency", "claim-lease"}, // whatever the settings say
	}[setting]...)
	for _, each := range rows {
		if strings.Contains(" "+each.settings+" ", " "+setting+" ") {
			s.expand(each)
		}
	}
	s.faults()
	s.records()
	return s
}

// atOnce publishes all rows' messages, and the one behind them.
func (s *spec) atOnce() {
	s.t.Helper()
	var messages []broker.Message
	for i, n := range s.by {
		messages = append(messages, s.message(n, s.rows[i].crash))
	}
	s.publishAll(append(messages, s.message(behind, ""))...)
}

func (s *spec) message(n notify.Notification, crash string) broker.Message {
	return broker.NewMessage(s.topology().Names, notify.Push, n, crash)
}

// beside is how many others a worker has in hand in a crash of the specification. The
// matrix has it with every handler at work: here the race detector is slow.
const beside = 63

// inTurn publishes each row's message when all others that its worker has in hand are in
// a send that was accepted and is not answered, and the next one when they are settled.
// It returns those others.
func (s *spec) inTurn() (others []notify.Notification) {
	s.t.Helper()
	for i, n := range s.by {
		var crowd []notify.Notification
		var messages []broker.Message
		for range beside {
			one := note7(fmt.Sprintf("%d-beside-%d", i, len(crowd)))
			crowd, messages = append(crowd, one), append(messages, s.message(one, ""))
		}
		from := s.history.Len()
		s.provider.SetFaults(provider.Faults{AcceptHang: []provider.Target{{}}})
		s.publishAll(messages...)
		s.awaitLedger(func(l *provider.Ledger) bool {
			return !slices.ContainsFunc(crowd, func(one notify.Notification) bool { return l.Held(one.ID, notify.Push) == 0 })
		})
		s.faults()
		s.publish(n, s.rows[i].crash)
		s.tells(n.ID, s.rows[i].story)
		left := map[string]bool{}
		for _, one := range crowd {
			left[one.ID] = true
		}
		s.awaitFrom(from, "all beside "+n.ID+" are acked", func(e event.Event) bool {
			if e.Kind == event.Acked {
				delete(left, e.ID)
			}
			return len(left) == 0
		})
		others = append(others, crowd...)
	}
	s.publish(behind, "")
	return others
}

// expand makes a row of each answer, crash and record that one names.
func (s *spec) expand(all row) {
	for _, answer := range strings.Fields(cmp.Or(all.answer, "200")) {
		for _, crash := range strings.Fields(cmp.Or(all.crash, "-")) {
			for _, given := range strings.Fields(cmp.Or(all.given, "-")) {
				one := all
				one.answer, one.crash, one.given = answer, strings.Trim(crash, "-"), strings.Trim(given, "-")
				n := note7(fmt.Sprintf("%d-%s%s%s", len(s.rows), answer, crash, given))
				if answer == "cut" || answer == "nowhere" {
					n.User = answer
				}
				s.rows, s.by = append(s.rows, one), append(s.by, n)
			}
		}
	}
}

// faults tells the provider what to do with each message.
func (s *spec) faults() {
	var f provider.Faults
	for i, n := range s.by {
		only := provider.Target{ID: n.ID}
		switch a := s.rows[i].answer; a {
		case "hang":
			f.AcceptHang = append(f.AcceptHang, only)
		case "200", "cut", "nowhere":
		default:
			refusal, err := provider.ParseRefuse(a)
			s.ok(err)
			f.Refuse = append(f.Refuse, provider.Refusal{Target: only, Status: refusal.Status})
		}
	}
	s.provider.SetFaults(f)
}

// records writes what each message's record says before.
func (s *spec) records() {
	live, err := idem.TakeSlot(s.State, s.Namespace, notify.Push)
	s.ok(err)
	s.t.Cleanup(func() { _ = live.Free() })
	dead, err := idem.TakeSlot(s.State, s.Namespace, notify.Push)
	s.ok(err)
	s.ok(dead.Free())
	for i, n := range s.by {
		other := n
		other.Text = "another text"
		for given, value := range map[string]string{
			"done":    by(dead.Owner(), n, idem.Done),
			"claimed": by(dead.Owner(), n, idem.Claimed),
			"text":    by(dead.Owner(), other, idem.Done),
			"live":    by(live.Owner(), n, idem.Pending),
			"dead":    by(dead.Owner(), n, idem.Pending),
			"garbage": "written by hand",
		} {
			if s.rows[i].given == given {
				s.put(n, value, time.Hour)
			}
		}
	}
}

// check waits until all that can be is settled, stops the worker, and compares.
func (s *spec) check(stop func()) {
	s.t.Helper()
	s.awaitKind(event.Sent, behind.ID)
	for i, n := range s.by {
		s.tells(n.ID, s.rows[i].story)
	}
	stop()
	lies := map[string]string{}
	for i, n := range s.by {
		want := s.rows[i]
		s.tells(n.ID, want.story) // and nothing more
		s.accepted(n.ID, want.accepted)
		if want.record == "as given" {
			want.record = map[string]string{"done": "done", "text": "done", "live": "pending"}[want.given]
		}
		if got := s.record(n); got != want.record {
			s.t.Errorf("%s: record %q, want %q", n.ID, got, want.record)
		}
		lies[n.ID] = want.lies
	}
	s.lie(lies)
}
