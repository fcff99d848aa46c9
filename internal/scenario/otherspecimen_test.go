package scenario

import (
	"slices"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// otherSpecimens are one for each scenario that is no lesson, by its own settings.
func otherSpecimens() map[string]specimen {
	return map[string]specimen{
		"duplicate-publish": duplicateSpecimen(),
		"live-takeover":     takeoverSpecimen(),
		"drain":             drainSpecimen(),
		"prefetch-blast":    blastSpecimen(),
		"head-of-line":      headOfLineSpecimen(),
		"poison":            poisonSpecimen(),
		"malformed":         malformedSpecimen(),
		"replay":            replaySpecimen(),
		"unroutable":        unroutableSpecimen(),
	}
}

func withLease() event.Settings { return event.Settings{Idempotency: true, ClaimLease: true} }

// played returns the cast of some notifications.
func played(settings event.Settings, all ...notify.Notification) cast {
	return cast{settings: settings, victim: all[0], behind: all[1], all: all}
}

// repeated returns so many events alike.
func repeated(n int, e event.Event) (all []event.Event) {
	for range n {
		all = append(all, e)
	}
	return all
}

func noted(n notify.Notification, channel string, messages int) event.Event {
	return event.Event{Kind: event.Note, Source: source, ID: n.ID, Channel: channel, Messages: messages}
}

func ended(owner, exit string) event.Event {
	return event.Event{Kind: event.Restart, Source: "supervisor", Owner: owner, Exit: exit}
}

func again(n notify.Notification, channel string) event.Event {
	e := said(n, channel, event.Received)
	e.Redelivered = true
	return e
}

func emptyQueues() map[string]int {
	queues := pushQueues(0)
	for _, name := range []string{"notify.email", "notify.email.retry.500ms", "notify.email.retry.1s", "email.dlq"} {
		queues[name] = 0
	}
	return queues
}

func holding(queues map[string]int, queue string, messages int) map[string]int {
	queues[queue] = messages
	return queues
}

func parkedAs(n notify.Notification, channel, reason string, attempts int) ParkedMessage {
	return ParkedMessage{ID: n.ID, Queue: channel + ".dlq", Reason: reason, Body: notify.Encode(n), Attempts: attempts}
}

// of says whether an event is of one of some kinds.
func of(e event.Event, kinds ...event.Kind) bool { return slices.Contains(kinds, e.Kind) }

func duplicateSpecimen() specimen {
	victim, behind := Subject{one().ID, push}, Subject{two().ID, push}
	events := slices.Concat(
		repeated(copies, said(one(), push, event.Received)),
		[]event.Event{said(one(), push, event.Claimed)},
		repeated(copies-1, said(one(), push, event.LeaseBusy)),
		[]event.Event{said(one(), push, event.Sent), said(one(), push, event.Done)},
		repeated(copies-1, said(one(), push, event.DuplicateDropped)),
		[]event.Event{said(two(), push, event.Sent)})
	return specimen{
		cast: played(withLease(), one(), two()),
		record: &Record{
			Events: events, Ledger: map[Subject]int{victim: 1, behind: 1},
			Records: map[Subject]Seen{victim: {Done, day}}, Ready: pushQueues(0), Elapsed: time.Second,
		},
		idle: func(e event.Event) bool { return e.ID == two().ID || of(e, event.Claimed, event.Done) },
	}
}

func takeoverSpecimen() specimen {
	victim, behind := Subject{one().ID, push}, Subject{two().ID, push}
	by := func(e event.Event) event.Event { e.PID = 7; return e }
	return specimen{
		cast: played(withLease(), one(), two()),
		record: &Record{
			Events: []event.Event{
				by(said(one(), push, event.Received)), noted(one(), push, 2), said(one(), push, event.Claimed),
				by(event.Event{Kind: event.Disconnect}), by(redelivered(one())), said(one(), push, event.LeaseBusy),
				said(one(), push, event.Sent), said(one(), push, event.Done), said(one(), push, event.DuplicateDropped),
				said(one(), push, event.Acked), said(two(), push, event.Sent),
			},
			Ledger: map[Subject]int{victim: 1, behind: 1}, Records: map[Subject]Seen{victim: {Done, day}},
			Ready: pushQueues(0), Elapsed: time.Second,
		},
		idle: func(e event.Event) bool { return e.ID == two().ID },
	}
}

func four() notify.Notification { return notify.Notification{ID: "k7f3-4", User: "8", Text: "behind"} }
func five() notify.Notification { return notify.Notification{ID: "k7f3-5", User: "7", Text: "bad"} }
func six() notify.Notification  { return notify.Notification{ID: "k7f3-6", User: "7", Text: "bad"} }

func drainSpecimen() specimen {
	asked, killed := Subject{one().ID, push}, Subject{three().ID, push}
	return specimen{
		cast: played(withLease(), one(), two(), three(), four()),
		record: &Record{
			Events: []event.Event{
				said(one(), push, event.Received), {Kind: event.Draining, Channel: push}, said(one(), push, event.Sent), ended("push-worker-1", "exit 0"),
				said(two(), push, event.Sent), said(three(), push, event.Received), ended("push-worker-1", "killed"),
				redelivered(three()), said(three(), push, event.Sent), said(four(), push, event.Sent),
			},
			Ledger:  map[Subject]int{asked: 1, {two().ID, push}: 1, killed: 2, {four().ID, push}: 1},
			Records: map[Subject]Seen{asked: {Done, day}, killed: {Done, day}},
			Ready:   pushQueues(0), Elapsed: time.Second,
		},
		idle: func(e event.Event) bool {
			return e.ID == two().ID || e.ID == four().ID || e.ID == three().ID && !e.Redelivered
		},
		blamed: func(e event.Event) string {
			if e.Exit == "killed" {
				return three().ID
			}
			return one().ID
		},
	}
}

func blastSpecimen() specimen {
	ledger := map[Subject]int{{one().ID, push}: 2, {two().ID, push}: 1, {three().ID, push}: 1}
	events := []event.Event{noted(one(), push, 1), noted(one(), email, 3), ended("push-worker-1", "killed"), ended("email-worker-1", "killed")}
	for _, n := range []notify.Notification{one(), two(), three()} {
		ledger[Subject{n.ID, email}] = 2
		events = append(events, again(n, push), again(n, email), said(n, push, event.Sent), said(n, email, event.Sent))
	}
	return specimen{
		cast:   played(withLease(), one(), two(), three()),
		record: &Record{Events: events, Ledger: ledger, Ready: emptyQueues(), Elapsed: time.Second},
		idle:   func(e event.Event) bool { return e.Kind == event.Sent },
	}
}

func headOfLineSpecimen() specimen {
	accepted := func(n notify.Notification, channel string) []event.Event {
		return []event.Event{{Kind: event.Accepted, Source: "provider", ID: n.ID, Channel: channel}, said(n, channel, event.Sent)}
	}
	ledger := map[Subject]int{}
	for _, n := range []notify.Notification{one(), two(), three()} {
		ledger[Subject{n.ID, push}], ledger[Subject{n.ID, email}] = 1, 1
	}
	return specimen{
		cast: played(event.Settings{}, one(), two(), three()),
		record: &Record{
			Events: slices.Concat(
				[]event.Event{said(one(), push, event.Received), said(one(), email, event.Received)},
				accepted(two(), email), accepted(three(), email), []event.Event{noted(one(), email, 2), noted(one(), push, 0)},
				accepted(one(), email), accepted(one(), push), accepted(two(), push), accepted(three(), push)),
			Ledger: ledger, Ready: emptyQueues(), Elapsed: time.Second,
		},
		idle: func(e event.Event) bool { return e.Kind == event.Received },
	}
}

func poisonSpecimen() specimen {
	ledger := map[Subject]int{}
	var events []event.Event
	for _, channel := range []string{push, email} {
		events = append(events, repeated(deaths, said(one(), channel, event.Crash))...)
		events = append(events, repeated(deaths, ended(channel+"-worker-1", "killed"))...)
		events = append(events, said(one(), channel, event.DeadLetter))
		ledger[Subject{one().ID, channel}] = 0
		for _, n := range []notify.Notification{two(), three()} {
			received := said(n, channel, event.Received)
			received.Redelivered = channel == email
			events = append(events, received, said(n, channel, event.Sent))
			ledger[Subject{n.ID, channel}] = 1
		}
	}
	c := played(event.Settings{}, one(), two(), three())
	c.behind = notify.Notification{} // nobody is judged by the ledger alone
	return specimen{
		cast: c,
		record: &Record{
			Events: events, Ledger: ledger, Ready: holding(holding(emptyQueues(), "push.dlq", 1), "email.dlq", 1),
			Parked:  []ParkedMessage{parkedAs(one(), push, "crashed", 0), parkedAs(one(), email, "crashed", 0)},
			Elapsed: 2 * time.Second,
		},
		idle: func(e event.Event) bool { return e.Kind == event.Received && !e.Redelivered },
	}
}

func malformedSpecimen() specimen {
	c := played(event.Settings{}, one(), two(), three(), four(), five(), six())
	ledger := map[Subject]int{{two().ID, push}: 1}
	var parked []ParkedMessage
	for i, n := range c.unreadable() {
		ledger[Subject{n.ID, push}] = 0
		parked = append(parked, ParkedMessage{ID: n.ID, Queue: "push.dlq", Reason: "malformed", Body: badBodies(c.unreadable())[i]})
	}
	return specimen{
		cast: c,
		record: &Record{
			Events: append(repeated(len(parked), event.Event{Kind: event.DeadLetter, Channel: push}), said(two(), push, event.Sent)),
			Ledger: ledger, Records: map[Subject]Seen{{one().ID, push}: {State: NoRecord}},
			Ready: pushQueues(len(parked)), Parked: parked, Elapsed: time.Second,
		},
		idle: func(e event.Event) bool { return e.ID == two().ID },
	}
}

func replaySpecimen() specimen {
	victim, other := Subject{one().ID, push}, Subject{two().ID, push}
	return specimen{
		cast: played(withLease(), one(), two()),
		record: &Record{
			Events: []event.Event{
				said(one(), push, event.DeadLetter), said(two(), push, event.DeadLetter), said(two(), push, event.Sent),
				noted(one(), push, 0), said(one(), push, event.Received), said(one(), push, event.Sent),
				noted(one(), push, 1), noted(two(), push, 1),
			},
			Ledger: map[Subject]int{victim: 1, other: 1}, Refused: map[Subject]int{victim: 1, other: 1},
			Records: map[Subject]Seen{victim: {Done, day}}, Ready: pushQueues(1),
			Parked: []ParkedMessage{parkedAs(two(), push, "refused", 1)}, Elapsed: time.Second,
		},
		idle: func(e event.Event) bool {
			return e.ID == two().ID && e.Kind != event.Note || e.Kind == event.Note && e.Messages == 0
		},
	}
}

func unroutableSpecimen() specimen {
	bad := Subject{two().ID, push}
	c := played(event.Settings{}, one(), two())
	c.behind = notify.Notification{}
	return specimen{
		cast: c,
		record: &Record{
			Events: []event.Event{
				said(one(), push, event.Sent), said(one(), email, event.Returned), said(one(), email, event.Queued), said(one(), email, event.Sent),
				said(two(), push, event.Returned), said(two(), push, event.DeadLetter),
			},
			Ledger: map[Subject]int{{one().ID, push}: 1, {one().ID, email}: 1, bad: 0}, Refused: map[Subject]int{bad: 1},
			Ready: holding(emptyQueues(), "push.dlq", 1), Parked: []ParkedMessage{parkedAs(two(), push, "refused", 1)}, Elapsed: time.Second,
		},
		idle: func(e event.Event) bool { return e.Channel == push && e.Kind == event.Sent },
	}
}

// TestJudges_of_others_want adds what must not be, and swaps what must come one after
// the other.
func TestJudges_of_others_want(t *testing.T) {
	t.Parallel()
	more := func(e event.Event) func(*Record) { return func(r *Record) { r.Events = append(r.Events, e) } }
	each := func(match func(event.Event) bool, change func(*event.Event)) func(*Record) {
		return func(r *Record) {
			for i := range r.Events {
				if match(r.Events[i]) {
					change(&r.Events[i])
				}
			}
		}
	}
	first := func(kind event.Kind) func(*Record) { // put before all others
		return func(r *Record) {
			i := slices.IndexFunc(r.Events, func(e event.Event) bool { return e.Kind == kind && (e.ID == one().ID || e.ID == "") })
			e := r.Events[i]
			r.Events = slices.Insert(slices.Delete(r.Events, i, i+1), 0, e)
		}
	}
	again1 := func(e event.Event) bool { return e.Redelivered && e.ID == one().ID }
	for _, c := range []struct {
		scenario, name string
		change         func(*Record)
	}{
		{"duplicate-publish", "one was redelivered", more(redelivered(one()))},
		{"duplicate-publish", "one was busy again", more(said(one(), push, event.LeaseBusy))},
		{"live-takeover", "another process had it", each(again1, func(e *event.Event) { e.PID++ })},
		{"live-takeover", "another process was cut off", each(func(e event.Event) bool { return e.Kind == event.Disconnect }, func(e *event.Event) { e.PID++ })},
		{"live-takeover", "cut off before it was received", first(event.Disconnect)},
		{"live-takeover", "acked twice", more(said(one(), push, event.Acked))},
		{"live-takeover", "dropped before it was sent", first(event.DuplicateDropped)},
		{"drain", "redelivered after SIGTERM", more(redelivered(one()))},
		{"drain", "sent before SIGTERM", first(event.Sent)},
		{"drain", "ended before it was sent", first(event.Restart)},
		{"drain", "killed twice", more(ended("push-worker-1", "killed"))},
		{"drain", "redelivered twice after SIGKILL", more(redelivered(three()))},
		{"prefetch-blast", "killed twice", more(ended("email-worker-1", "killed"))},
		{"head-of-line", "push overtook", func(r *Record) {
			i := slices.IndexFunc(r.Events, func(e event.Event) bool { return e.Kind == event.Accepted && e.ID == three().ID && e.Channel == push })
			e := r.Events[i]
			r.Events = slices.Insert(slices.Delete(r.Events, i, i+1), 0, e)
		}},
		{"poison", "it was sent", more(said(one(), email, event.Sent))},
		{"poison", "one more hand was hit", more(again(two(), push))},
		{"poison", "parked twice", more(said(one(), push, event.DeadLetter))},
		{"malformed", "the worker died", more(ended("push-worker-1", "killed"))},
		{"malformed", "a retry", more(event.Event{Kind: event.Retry, Channel: push})},
		{"malformed", "a claim", more(event.Event{Kind: event.Claimed, Channel: push})},
		{"replay", "sent before it was replayed", func(r *Record) { r.Events = slices.Delete(r.Events, 3, 4) }},
		{"replay", "the other was replayed, too", func(r *Record) { r.Ledger[Subject{two().ID, push}]++; r.Parked = nil; r.Ready["push.dlq"] = 0 }},
		{"unroutable", "queued at once", first(event.Queued)},
		{"unroutable", "parked before it was returned", func(r *Record) { slices.Reverse(r.Events[4:]) }},
		{"unroutable", "returned twice", more(said(one(), email, event.Returned))},
	} {
		s := specimens()[c.scenario]
		if v := named(t, c.scenario).judge(s.cast, s.record.altered(c.change)); v.Status != NotHeld {
			t.Errorf("%s, %s: %s", c.scenario, c.name, v.Status)
		}
	}
}
