package scenario

import (
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// TestChecks has for each check a history that passes it and those that must fail
// it, and compares the whole finding.
func TestChecks(t *testing.T) {
	t.Parallel()
	victim := Subject{bad().ID, push}
	ids := []string{bad().ID}
	of := func(kinds ...event.Kind) *Record {
		r := &Record{}
		for _, k := range kinds {
			r.Events = append(r.Events, said(bad(), push, k))
		}
		return r
	}
	seen := func(state State, ttl time.Duration) *Record {
		m := map[Subject]Seen{victim: {state, ttl}}
		return &Record{Records: m, AtCrash: m, Elapsed: time.Second}
	}
	holds := func(queue string, n int) *Record { return &Record{Ready: map[string]int{queue: n}} }
	parked := func(queue, reason, body string, attempts int) *Record {
		return &Record{Parked: []ParkedMessage{{Queue: queue, Reason: reason, Body: []byte(body), Attempts: attempts}}}
	}
	body := string(notify.Encode(bad()))
	lost := &Record{Ledger: map[Subject]int{}}
	crashed := func(after ...event.Event) *Record {
		return &Record{Events: append([]event.Event{said(bad(), push, event.Crash)}, after...)}
	}
	exited := restarted()
	exited.Exit = "exit 3"
	sent := func(e event.Event) bool { return e.Kind == event.Sent }
	done := func(e event.Event) bool { return e.Kind == event.Done }
	wait := func(ms ...int64) *Record {
		r := &Record{}
		for _, n := range ms {
			r.Events = append(r.Events, event.Event{Kind: event.Retry, ID: bad().ID, Channel: push, BackoffMS: n})
		}
		return r
	}
	noted := func(source string, n int) *Record {
		return &Record{Events: []event.Event{{Kind: event.Note, Source: source, ID: bad().ID, Channel: push, Messages: n}}}
	}

	cases := []struct {
		name      string
		got, want Finding
	}{
		{"accepted", (&Record{Ledger: map[Subject]int{victim: 1}}).accepted("it", victim, 1), Finding{"provider, it", "1 accepted", "1 accepted", true, ids}},
		{"accepted twice", (&Record{Ledger: map[Subject]int{victim: 2}}).accepted("it", victim, 1), Finding{"provider, it", "1 accepted", "2 accepted", false, ids}},
		{"accepted, another", (&Record{Ledger: map[Subject]int{{bad().ID, email}: 1}}).accepted("it", victim, 1), Finding{"provider, it", "1 accepted", "0 accepted", false, ids}},
		{"refused", (&Record{Refused: map[Subject]int{victim: 3}}).refusals("it", victim, 3), Finding{"provider, it", "3 refused", "3 refused", true, ids}},
		{"refused too often", (&Record{Refused: map[Subject]int{victim: 4}}).refusals("it", victim, 3), Finding{"provider, it", "3 refused", "4 refused", false, ids}},

		{"said", of(event.Sent, event.Received, event.Crash).said("lines", victim, event.Sent, event.Crash), Finding{"lines", "sent, crash", "sent, crash", true, ids}},
		{"said the other way round", of(event.Crash, event.Sent).said("lines", victim, event.Sent, event.Crash), Finding{"lines", "sent, crash", "sent", false, ids}},
		{"said of another", of(event.Sent).said("lines", Subject{"other", push}, event.Sent), Finding{"lines", "sent", "nothing", false, []string{"other"}}},
		{"said once, wanted twice", of(event.Retry).said("lines", victim, event.Retry, event.Retry), Finding{"lines", "retry, retry", "retry", false, ids}},

		{"never", of(event.Crash).times("lines", victim, event.Sent, 0), Finding{"lines", "0 sent", "0 sent", true, ids}},
		{"never, but once", of(event.Sent).times("lines", victim, event.Sent, 0), Finding{"lines", "0 sent", "1 sent", false, ids}},
		{"once, but twice", of(event.Sent, event.Sent).times("lines", victim, event.Sent, 1), Finding{"lines", "1 sent", "2 sent", false, ids}},

		{"revived", crashed(restarted(), redelivered(bad())).revived(victim, true), Finding{"after the crash", "killed, restarted, redelivered", "killed, restarted, redelivered", true, ids}},
		{"revived, acked before", crashed(restarted()).revived(victim, false), Finding{"after the crash", "killed, restarted", "killed, restarted", true, ids}},
		{"said so and lived on", crashed().revived(victim, false), Finding{"after the crash", "killed, restarted", "nothing", false, ids}},
		{"no crash", (&Record{Events: []event.Event{restarted()}}).revived(victim, false), Finding{"after the crash", "killed, restarted", "nothing", false, ids}},
		{"ended by itself", crashed(exited, redelivered(bad())).revived(victim, true), Finding{"after the crash", "killed, restarted, redelivered", "exit 3, restarted, redelivered", false, ids}},
		{"not redelivered", crashed(restarted(), said(bad(), push, event.Received)).revived(victim, true), Finding{"after the crash", "killed, restarted, redelivered", "killed, restarted", false, ids}},
		{"redelivered although acked", crashed(restarted(), redelivered(bad())).revived(victim, false), Finding{"after the crash", "killed, restarted", "killed, restarted, redelivered", false, ids}},
		{"crashed twice", crashed(restarted(), said(bad(), push, event.Crash)).revived(victim, false), Finding{"after the crash", "killed, restarted", "killed, restarted, 2 crashes", false, ids}},

		{"record", seen(Done, day).record(victim, Done, retention), Finding{"redis record", "done, at most 24h", "done, 23h59m59s", true, ids}},
		{"record, another state", seen(Claimed, day).record(victim, Done, retention), Finding{"redis record", "done, at most 24h", "claimed, 23h59m59s", false, ids}},
		{"record, for too long", seen(Done, 25*time.Hour).record(victim, Done, retention), Finding{"redis record", "done, at most 24h", "done, 25h0m0s", false, ids}},
		{"record, for ever", seen(Done, -1).record(victim, Done, retention), Finding{"redis record", "done, at most 24h", "done, for ever", false, ids}},
		{"record, with a lease's time", seen(Done, 9*time.Second).record(victim, Done, retention), Finding{"redis record", "done, at most 24h", "done, 9.0s", false, ids}},
		{"no record", seen(NoRecord, 0).record(victim, NoRecord, 0), Finding{"redis record", "none", "none", true, ids}},
		{"no record, but one", seen(Pending, time.Second).record(victim, NoRecord, 0), Finding{"redis record", "none", "pending, 1.0s", false, ids}},
		{"no record, never looked at", lost.record(victim, NoRecord, 0), Finding{"redis record", "none", "not looked at", false, ids}},
		{"at the crash", seen(Pending, lease).recordAtCrash(victim, Pending, lease), Finding{"redis record at the crash", "pending, at most 10s", "pending, 10.0s", true, ids}},
		{"at the crash, too long", seen(Pending, lease+1).recordAtCrash(victim, Pending, lease), Finding{"redis record at the crash", "pending, at most 10s", "pending, 10.0s", false, ids}},
		{"at the crash, never looked at", lost.recordAtCrash(victim, Pending, lease), Finding{"redis record at the crash", "pending, at most 10s", "not looked at", false, ids}},

		{"ready", holds("q", 0).ready("q", 0), Finding{"q, workers stopped", "0 messages", "0 messages", true, nil}},
		{"ready, one left", holds("q", 1).ready("q", 0), Finding{"q, workers stopped", "0 messages", "1 message", false, nil}},
		{"ready, gone", holds("q", gone).ready("q", 0), Finding{"q, workers stopped", "0 messages", "no such queue", false, nil}},
		{"ready, never looked at", holds("p", 0).ready("q", 0), Finding{"q, workers stopped", "0 messages", "no such queue", false, nil}},
		{"elsewhere", holds("q", 0).elsewhere("p"), Finding{"other queues, workers stopped", "0 messages", "0 messages", true, nil}},
		{"elsewhere, but named", holds("q", 1).elsewhere("q"), Finding{"other queues, workers stopped", "0 messages", "0 messages", true, nil}},
		{"elsewhere, one left", holds("q", 1).elsewhere(), Finding{"other queues, workers stopped", "0 messages", "q 1", false, nil}},
		{"elsewhere, gone", holds("q", gone).elsewhere(), Finding{"other queues, workers stopped", "0 messages", "no queue q", false, nil}},

		{"order", of(event.Sent, event.Done).order("o", sent, done, "a"), Finding{"o", "before", "before", true, []string{"a"}}},
		{"order, after", of(event.Done, event.Sent).order("o", sent, done, "a"), Finding{"o", "before", "after", false, []string{"a"}}},
		{"order, never", of(event.Done).order("o", sent, done, "a"), Finding{"o", "before", "never", false, []string{"a"}}},
		{"order, alone", of(event.Sent).order("o", sent, done, "a"), Finding{"o", "before", "the other never came", false, []string{"a"}}},

		{"backoffs", wait(500, 1000).backoffs(victim, 500, 1000), Finding{"waits between attempts", "0.5s, 1s", "0.5s, 1s", true, ids}},
		{"backoffs, one more", wait(500, 1000, 1000).backoffs(victim, 500, 1000), Finding{"waits between attempts", "0.5s, 1s", "0.5s, 1s, 1s", false, ids}},
		{"backoffs, the other way round", wait(1000, 500).backoffs(victim, 500, 1000), Finding{"waits between attempts", "0.5s, 1s", "1s, 0.5s", false, ids}},
		{"backoffs, none", wait().backoffs(victim, 500, 1000), Finding{"waits between attempts", "0.5s, 1s", "none", false, ids}},

		{"parked", parked("push.dlq", "refused", body, 3).parkedAsPublished(bad()), Finding{"push.dlq, the body", "as it was published", "as it was published", true, ids}},
		{"parked, changed", parked("push.dlq", "refused", body+" ", 3).parkedAsPublished(bad()), Finding{"push.dlq, the body", "as it was published", "changed", false, ids}},
		{"parked elsewhere", parked("email.dlq", "refused", body, 3).parkedAsPublished(bad()), Finding{"push.dlq, the body", "as it was published", "not there", false, ids}},
		{"parked why", parked("push.dlq", "refused", body, 3).parkedAfter(bad(), 3), Finding{"push.dlq, why", "refused, 3 attempts", "refused, 3 attempts", true, ids}},
		{"parked too early", parked("push.dlq", "refused", body, 2).parkedAfter(bad(), 3), Finding{"push.dlq, why", "refused, 3 attempts", "refused, 2 attempts", false, ids}},
		{"parked by the broker", parked("push.dlq", "delivery_limit", body, 0).parkedAfter(bad(), 3), Finding{"push.dlq, why", "refused, 3 attempts", "delivery_limit, 0 attempts", false, ids}},

		{"noted", noted("scenario", 1).noted("n", victim, 1, "messages"), Finding{"n", "1 message", "1 message", true, ids}},
		{"noted, none", noted("scenario", 0).noted("n", victim, 1, "messages"), Finding{"n", "1 message", "0 messages", false, ids}},
		{"noted by a worker", noted("push-worker-1", 1).noted("n", victim, 1, "messages"), Finding{"n", "1 message", "never looked at", false, ids}},

		{"server", (&Record{Events: []event.Event{serverNote("Redis", killed), serverNote("RabbitMQ", stopped), serverNote("Redis", running)}}).serverWas("Redis", "a", killed, running), Finding{"Redis", "killed, running", "killed, running", true, []string{"a"}}},
		{"server, not back", (&Record{Events: []event.Event{serverNote("Redis", killed)}}).serverWas("Redis", "a", killed, running), Finding{"Redis", "killed, running", "killed", false, []string{"a"}}},
		{"server, never", lost.serverWas("Redis", "a", killed, running), Finding{"Redis", "killed, running", "as it was", false, []string{"a"}}},
		{"lived", (&Record{Events: []event.Event{ofWorker(event.Ready), ofWorker(event.Disconnect)}}).lived("push-worker-1", "a", event.Ready, event.Disconnect), Finding{"push-worker-1, in one life", "ready, disconnect", "ready, disconnect", true, []string{"a"}}},
		{"lived, in two lives", (&Record{Events: []event.Event{ofWorker(event.Ready), restarted(), ofWorker(event.Ready)}}).lived("push-worker-1", "a", event.Ready, event.Ready), Finding{"push-worker-1, in one life", "ready, ready", "ready, ready, in 2 lives", false, []string{"a"}}},
		{"lived, and Redis stood still", life(event.Ready, event.Disconnect, event.Disconnect, event.Reconnected, event.Ready).lived("push-worker-1", "a", event.Ready, event.Disconnect, event.Ready), Finding{"push-worker-1, in one life", "ready, disconnect, ready", "ready, disconnect, ready, Redis away 1 more", true, []string{"a"}}},
		{"lived, and Redis stood still twice", life(event.Ready, event.Disconnect, event.Reconnected, event.Disconnect, event.Reconnected).lived("push-worker-1", "a", event.Ready), Finding{"push-worker-1, in one life", "ready", "ready, Redis away 2 more", true, []string{"a"}}},
		{"lived, away and not back", life(event.Ready, event.Disconnect, event.Disconnect, event.Ready).lived("push-worker-1", "a", event.Ready, event.Disconnect, event.Ready), Finding{"push-worker-1, in one life", "ready, disconnect, ready", "ready, disconnect, disconnect, ready", false, []string{"a"}}},
		{"lived, back and never away", life(event.Ready, event.Reconnected).lived("push-worker-1", "a", event.Ready), Finding{"push-worker-1, in one life", "ready", "ready, reconnected", false, []string{"a"}}},
		{"lived, another", (&Record{Events: []event.Event{ofWorker(event.Ready)}}).lived("push-worker-2", "a", event.Ready), Finding{"push-worker-2, in one life", "ready", "nothing", false, []string{"a"}}},

		{"each sent", of(event.Sent).eachSent([]notify.Notification{bad()}, notify.Push), Finding{"push worker lines", "1 sent", "1 sent", true, nil}},
		{"each sent, twice", of(event.Sent, event.Sent).eachSent([]notify.Notification{bad()}, notify.Push), Finding{"push worker lines", "1 sent", "0 sent", false, ids}},
	}
	for _, c := range cases {
		same(t, c.name, c.got, c.want)
	}
}

func TestFate(t *testing.T) {
	t.Parallel()
	n, s := bad(), Subject{bad().ID, push}
	parked := []ParkedMessage{{Queue: "push.dlq", Body: notify.Encode(n)}}
	cases := []struct {
		name     string
		record   Record
		accepted int
		outcome  Outcome
	}{
		{"once", Record{Ledger: map[Subject]int{s: 1}}, 1, Once},
		{"twice", Record{Ledger: map[Subject]int{s: 3}}, 3, Twice},
		{"lost", Record{Ready: map[string]int{"notify.push": 0, "push.dlq": 0}}, 0, Lost},
		{"lost, whatever waits for email", Record{Ready: map[string]int{"notify.email": 1, "notify.email.retry.1s": 1}}, 0, Lost},
		{"lost, with another parked", Record{Parked: []ParkedMessage{{Queue: "push.dlq", Body: notify.Encode(two())}, {Queue: "push.dlq", Body: []byte("{")}}}, 0, Lost},
		{"lost, with its email parked", Record{Parked: []ParkedMessage{{Queue: "email.dlq", Body: notify.Encode(n)}}}, 0, Lost},
		{"parked", Record{Parked: parked}, 0, Parked},
		{"sent and parked", Record{Parked: parked, Ledger: map[Subject]int{s: 1}}, 1, Once},
		{"waits", Record{Ready: map[string]int{"notify.push": 1}}, 0, Unknown},
		{"waits for its retry", Record{Ready: map[string]int{"notify.push.retry.1s": 1}}, 0, Unknown},
	}
	for _, c := range cases {
		same(t, c.name, c.record.fate(n, notify.Push), Fate{n.ID, push, c.accepted, c.outcome})
	}
}
