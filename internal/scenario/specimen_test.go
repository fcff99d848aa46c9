package scenario

import (
	"maps"
	"slices"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// Specimens are records of lessons that held, written down by hand: what judges are
// tested with. They have the lines of a worker that matter, and some that do not.

const (
	push  = string(notify.Push)
	email = string(notify.Email)
)

func one() notify.Notification   { return notify.Notification{ID: "k7f3-1", User: "7", Text: "hello"} }
func two() notify.Notification   { return notify.Notification{ID: "k7f3-2", User: "8", Text: "behind"} }
func three() notify.Notification { return notify.Notification{ID: "k7f3-3", User: "7", Text: "slow"} }
func bad() notify.Notification   { return notify.Notification{ID: "k7f3-1", User: "999", Text: "hello"} }

// said is what a worker says of a notification.
func said(n notify.Notification, channel string, kind event.Kind) event.Event {
	return event.Event{Kind: kind, Source: channel + "-worker-1", ID: n.ID, User: n.User, Channel: channel}
}

func redelivered(n notify.Notification) event.Event {
	e := said(n, push, event.Received)
	e.Redelivered = true
	return e
}

func restarted() event.Event {
	return event.Event{Kind: event.Restart, Source: "supervisor", Owner: "push-worker-1", Exit: "killed"}
}

// A specimen is a record, who plays in it, and which of its facts are none of the
// judge's business.
type specimen struct {
	cast
	record *Record
	idle   func(event.Event) bool
	// blamed is who has to be named for what is nobody's event; nil: the victim.
	blamed func(event.Event) string
}

// specimens are one for each scenario.
func specimens() map[string]specimen {
	all := map[string]specimen{
		"broker-restart": brokerRestartSpecimen(),
		"redis-outage":   redisOutageSpecimen(),
		"redis-amnesia":  redisAmnesiaSpecimen(),
		"broker-alarm":   brokerAlarmSpecimen(),

		"fan-out":     fanOutSpecimen(),
		"dead-letter": deadLetterSpecimen(),
		"crash": crashSpecimen(event.Settings{}, 2, Seen{State: NoRecord}, Seen{State: NoRecord},
			said(one(), push, event.Received), said(one(), push, event.Sent), said(one(), push, event.Crash), restarted(),
			redelivered(one()), said(one(), push, event.Sent), said(one(), push, event.Acked)),
		"idempotency": crashSpecimen(event.Settings{Idempotency: true}, 1, Seen{Claimed, day}, Seen{Claimed, day},
			said(one(), push, event.Received), said(one(), push, event.Claimed), said(one(), push, event.Sent), said(one(), push, event.Crash), restarted(),
			redelivered(one()), said(one(), push, event.DuplicateDropped), said(one(), push, event.Acked)),
		"crash-claim": crashSpecimen(event.Settings{Idempotency: true}, 0, Seen{Claimed, day}, Seen{Claimed, day},
			said(one(), push, event.Received), said(one(), push, event.Claimed), said(one(), push, event.Crash), restarted(),
			redelivered(one()), said(one(), push, event.DuplicateDropped), said(one(), push, event.Acked)),
		"claim-lease": crashSpecimen(event.Settings{Idempotency: true, ClaimLease: true}, 1, Seen{Pending, 9 * time.Second}, Seen{Done, day},
			said(one(), push, event.Received), said(one(), push, event.Claimed), said(one(), push, event.Crash), restarted(),
			redelivered(one()), said(one(), push, event.ClaimRecovered), said(one(), push, event.Sent), said(one(), push, event.Done), said(one(), push, event.Acked)),
	}
	maps.Copy(all, otherSpecimens())
	maps.Copy(all, windowSpecimens())
	return all
}

// day is a record's time to live, a moment after it was written.
const day = retention - time.Second

func crashSpecimen(settings event.Settings, accepted int, atCrash, end Seen, story ...event.Event) specimen {
	victim, behind := Subject{one().ID, push}, Subject{two().ID, push}
	story = append([]event.Event{said(one(), push, event.Queued), said(two(), push, event.Queued)}, story...)
	story = append(story, said(two(), push, event.Received), said(two(), push, event.Sent), said(two(), push, event.Acked))
	return specimen{
		cast: cast{settings: settings, victim: one(), behind: two(), all: []notify.Notification{one(), two()}},
		record: &Record{
			Settings: settings,
			Events:   story,
			Ledger:   map[Subject]int{victim: accepted, behind: 1},
			Records:  map[Subject]Seen{victim: end},
			AtCrash:  map[Subject]Seen{victim: atCrash},
			Ready:    pushQueues(0),
			Elapsed:  2 * time.Second,
		},
		idle: func(e event.Event) bool {
			// The one behind is judged by the ledger, and a claim for good is no line
			// that must appear. A redelivery comes after a restart.
			return e.ID == two().ID || e.Kind == event.Queued || e.Kind == event.Acked ||
				e.Kind == event.Received && !e.Redelivered || e.Kind == event.Claimed && !settings.ClaimLease
		},
	}
}

func pushQueues(parked int) map[string]int {
	return map[string]int{"notify.push": 0, "notify.push.retry.500ms": 0, "notify.push.retry.1s": 0, "push.dlq": parked}
}

func deadLetterSpecimen() specimen {
	victim, behind := Subject{bad().ID, push}, Subject{two().ID, push}
	attempt := func(n int) event.Event {
		e := said(bad(), push, event.Received)
		e.Attempt = n
		return e
	}
	retry := func(n int, backoff int64) event.Event {
		e := said(bad(), push, event.Retry)
		e.Attempt, e.Attempts, e.BackoffMS = n, 3, backoff
		return e
	}
	return specimen{
		cast: cast{victim: bad(), behind: two(), all: []notify.Notification{bad(), two()}},
		record: &Record{
			Events: []event.Event{
				said(bad(), push, event.Queued), said(two(), push, event.Queued),
				attempt(1), retry(1, 500), said(bad(), push, event.Acked),
				said(two(), push, event.Received), said(two(), push, event.Sent), said(two(), push, event.Acked),
				attempt(2), retry(2, 1000), said(bad(), push, event.Acked),
				attempt(3), said(bad(), push, event.DeadLetter), said(bad(), push, event.Acked),
			},
			Ledger:  map[Subject]int{victim: 0, behind: 1},
			Refused: map[Subject]int{victim: 3},
			Records: map[Subject]Seen{victim: {State: NoRecord}},
			Ready:   pushQueues(1),
			Parked:  []ParkedMessage{{Queue: "push.dlq", Reason: "refused", Body: notify.Encode(bad()), Attempts: 3}},
			Elapsed: 2 * time.Second,
		},
		idle: func(e event.Event) bool {
			return e.Kind == event.Queued || e.Kind == event.Acked || e.Kind == event.Received && (e.ID == two().ID || e.Attempt != 2)
		},
	}
}

func fanOutSpecimen() specimen {
	noted := func(n notify.Notification) event.Event { return noted(n, email, 1) }
	return specimen{
		cast: cast{all: []notify.Notification{one(), two(), three()}},
		record: &Record{
			Events: []event.Event{
				said(one(), push, event.Received), said(one(), email, event.Received), said(one(), push, event.Sent), said(one(), email, event.Sent),
				said(two(), push, event.Received), said(two(), push, event.Sent), noted(two()), said(two(), email, event.Received), said(two(), email, event.Sent),
				said(three(), email, event.Received), said(three(), push, event.Received), said(three(), push, event.Sent), noted(three()), said(three(), email, event.Sent),
			},
			Ledger: map[Subject]int{
				{one().ID, push}: 1, {two().ID, push}: 1, {three().ID, push}: 1,
				{one().ID, email}: 1, {two().ID, email}: 1, {three().ID, email}: 1,
			},
			Ready: map[string]int{
				"notify.push": 0, "notify.push.retry.500ms": 0, "notify.push.retry.1s": 0, "push.dlq": 0,
				"notify.email": 0, "notify.email.retry.500ms": 0, "notify.email.retry.1s": 0, "email.dlq": 0,
			},
			Elapsed: 3 * time.Second,
		},
		idle: func(e event.Event) bool {
			return e.Kind == event.Received && !(e.ID == two().ID && e.Channel == email)
		},
	}
}

// altered returns a copy of a record with one thing changed.
func (r *Record) altered(change func(*Record)) *Record {
	c := *r
	c.Events = slices.Clone(r.Events)
	c.Ledger, c.Refused, c.Ready = maps.Clone(r.Ledger), maps.Clone(r.Refused), maps.Clone(r.Ready)
	c.Records, c.AtCrash = maps.Clone(r.Records), maps.Clone(r.AtCrash)
	c.Parked = slices.Clone(r.Parked)
	change(&c)
	return &c
}

func TestJudges_pass_their_specimens(t *testing.T) {
	t.Parallel()
	for name, s := range allSpecimens() {
		scenario := named(t, name)
		v := scenario.judge(s.cast, s.record)
		if v.Status != Held || v.Outcome != scenario.Outcome || v.Want != scenario.Outcome {
			t.Errorf("want held, %s: %s", scenario.Outcome, explain(v))
		}
	}
}
