package scenario

import (
	"maps"
	"slices"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// windowSpecimens are one for each scenario that is a cell of the matrix and no
// lesson.
func windowSpecimens() map[string]specimen {
	leased, keyed := withLease(), withLease()
	keyed.ProviderKey = true
	done := Seen{Done, day}
	crash := []event.Event{
		w1(event.Received), w1(event.Claimed), w1(event.Sent), w1(event.Crash), restarted(),
		handed(1), w1(event.ClaimRecovered), w1(event.Sent), w1(event.Done), w1(event.Acked),
	}
	// The first of them may read its answer or not.
	both := stopSpecimen(leased, 2, done,
		w1(event.Received), w1(event.Claimed), accepted(), w1(event.Stopped),
		handed(2), w2(event.LeaseBusy), w2(event.Claimed), acceptedAgain(), w2(event.Sent), w2(event.Done), w2(event.Acked),
		forgotten(), w1(event.Woke), w1(event.Sent), w1(event.LeaseLost), w1(event.Dropped), ready())
	idle := both.idle
	both.idle = func(e event.Event) bool { return idle(e) || e.Kind == event.Sent && e.Source == "push-worker-1" }
	return map[string]specimen{
		"crash-send":   crashSpecimen(leased, 2, Seen{}, done, crash...),
		"provider-key": crashSpecimen(keyed, 1, Seen{}, done, crash...),
		"zombie":       cellSpecimens()["lease/after-claim/stop"],
		"zombie-send":  both,
	}
}

// cellSpecimens are one for each kind of cell that no scenario is.
func cellSpecimens() map[string]specimen {
	leased := withLease()
	done, none := Seen{Done, day}, Seen{State: NoRecord}
	return map[string]specimen{
		"lease/after-claim/stop": stopSpecimen(leased, 1, done,
			w1(event.Received), w1(event.Claimed), w1(event.Stopped),
			handed(2), w2(event.LeaseBusy), w2(event.Claimed), accepted(), w2(event.Sent), w2(event.Done), w2(event.Acked),
			forgotten(), w1(event.Woke), w1(event.LeaseLost), w1(event.Dropped), ready()),
		"record/before-send/stop": stopSpecimen(event.Settings{Idempotency: true}, 1, Seen{Claimed, day},
			w1(event.Received), w1(event.Claimed), w1(event.Stopped),
			handed(2), w2(event.DuplicateDropped), w2(event.Acked),
			forgotten(), w1(event.Woke), accepted(), w1(event.Sent), w1(event.Dropped), ready()),
		"none/after-receive/stop": stopSpecimen(event.Settings{}, 2, none,
			w1(event.Received), w1(event.Stopped),
			handed(2), accepted(), w2(event.Sent), w2(event.Acked),
			forgotten(), w1(event.Woke), acceptedAgain(), w1(event.Sent), w1(event.Dropped), ready()),
		"none/after-ack/stop": stopSpecimen(event.Settings{}, 1, none,
			w1(event.Received), accepted(), w1(event.Sent), w1(event.Acked), w1(event.Stopped),
			forgotten(), w1(event.Woke), ready()),
		"lease/after-claim/twins": stopSpecimen(leased, 1, done,
			w1(event.Received), w1(event.Claimed), w1(event.Stopped),
			w2(event.Received), w2(event.LeaseBusy), w2(event.Claimed), accepted(), w2(event.Sent), w2(event.Done), w2(event.Acked),
			w1(event.Woke), w1(event.LeaseLost), w1(event.DuplicateDropped), w1(event.Acked)),
		// With others in hand, each in a send that was accepted and not answered.
		"lease/after-send/kill": crashSpecimen(leased, 2, Seen{}, done,
			w1(event.Received), w1(event.Claimed), w1(event.Sent), w1(event.Crash), restarted(),
			handed(1), w1(event.ClaimRecovered), w1(event.Sent), w1(event.Done), w1(event.Acked)).with(2, true, done),
		"lease/after-receive/stop": stopSpecimen(leased, 1, done,
			w1(event.Received), w1(event.Stopped),
			handed(2), w2(event.Claimed), accepted(), w2(event.Sent), w2(event.Done), w2(event.Acked),
			forgotten(), w1(event.Woke), w1(event.DuplicateDropped), w1(event.Dropped), ready()).with(2, true, done),
		"lease/mid-send/twins": stopSpecimen(leased, 1, done,
			w1(event.Received), w1(event.Claimed), w1(event.Stopped),
			w2(event.Received), w2(event.LeaseBusy), handed(3), w2(event.Claimed),
			w1(event.Woke), w1(event.LeaseLost), w1(event.Dropped), ready(),
			accepted(), w2(event.Sent), w2(event.Done), w2(event.Acked), by(3, event.DuplicateDropped), by(3, event.Acked)),
	}
}

// with adds two others that the worker had in hand, and what became of each.
func (s specimen) with(accepted int, again bool, end Seen) specimen {
	for _, id := range []string{"k7f3-beside-1", "k7f3-beside-2"} {
		n := notify.Notification{ID: id, User: "101", Text: "beside"}
		s.beside = append(s.beside, n)
		s.record.Ledger[subject(n, notify.Push)] = accepted
		if end.State != "" {
			s.record.Records[subject(n, notify.Push)] = end
		}
		e := said(n, push, event.Received)
		s.record.Events = append(s.record.Events, e)
		if again {
			s.record.Events = append(s.record.Events, redelivered(n))
		}
	}
	return s
}

func w1(kind event.Kind) event.Event { return by(1, kind) }
func w2(kind event.Kind) event.Event { return by(2, kind) }

// by is what the worker in a slot says of the victim.
func by(slot int, kind event.Kind) event.Event {
	e := said(one(), push, kind)
	e.Source = "push-worker-" + string(rune('0'+slot))
	return e
}

func handed(slot int) event.Event {
	e := by(slot, event.Received)
	e.Redelivered = true
	return e
}

func ready() event.Event {
	return event.Event{Kind: event.Ready, Source: "push-worker-1", Channel: push}
}

func accepted() event.Event {
	return event.Event{Kind: event.Accepted, Source: "provider", ID: one().ID, Channel: push}
}

func acceptedAgain() event.Event {
	return event.Event{Kind: event.AcceptedAgain, Source: "provider", ID: one().ID, Channel: push}
}

// forgotten is the scenario's note that the broker has nothing of the victim.
func forgotten() event.Event {
	return event.Event{Kind: event.Note, Source: source, ID: one().ID, Channel: push}
}

func stopSpecimen(settings event.Settings, times int, end Seen, story ...event.Event) specimen {
	victim, behind, last := Subject{one().ID, push}, Subject{two().ID, push}, Subject{three().ID, push}
	late := settings == event.Settings{Idempotency: true}
	all := []notify.Notification{one(), two()}
	ledger := map[Subject]int{victim: times, behind: 1}
	if slices.ContainsFunc(story, func(e event.Event) bool { return e.Kind == event.Note }) { // by then there is a third
		all, ledger[last] = append(all, three()), 1
	}
	return specimen{
		cast: cast{settings: settings, victim: one(), behind: two(), all: all},
		record: &Record{
			Settings: settings,
			Events:   append([]event.Event{said(one(), push, event.Queued)}, story...),
			Ledger:   ledger,
			Records:  map[Subject]Seen{victim: end},
			Ready:    pushQueues(0),
			Elapsed:  10 * time.Second,
		},
		idle: func(e event.Event) bool {
			return e.Kind == event.Queued || e.Kind == event.Acked || e.Kind == event.Dropped ||
				e.Kind == event.Received && !e.Redelivered || e.Kind == event.Claimed && !settings.ClaimLease ||
				e.Kind == event.Accepted && !late || e.Kind == event.AcceptedAgain
		},
	}
}

// TestCells_around_a_copy: parked at least once, accepted never, never nowhere.
func TestCells_around_a_copy(t *testing.T) {
	t.Parallel()
	leased := withLease()
	victim, behind := Subject{bad().ID, push}, Subject{two().ID, push}
	letter := ParkedMessage{Queue: "push.dlq", Reason: "refused", Body: notify.Encode(bad()), Attempts: 3}
	good := func(letters int) *Record {
		return &Record{
			Settings: leased,
			Events: []event.Event{
				w1(event.Received), w1(event.Crash), restarted(), handed(1), w1(event.Retry), w1(event.Acked),
				w1(event.Received), w1(event.DeadLetter), w1(event.Acked),
			},
			Ledger:  map[Subject]int{victim: 0, behind: 1},
			Records: map[Subject]Seen{victim: {State: NoRecord}},
			Ready:   pushQueues(letters),
			Parked:  slices.Repeat([]ParkedMessage{letter}, letters),
		}
	}
	who := cast{settings: leased, victim: bad(), behind: two(), all: []notify.Notification{bad(), two()}}
	judge := named(t, "lease/before-copy/kill").judge
	for _, letters := range []int{1, 2} {
		if v := judge(who, good(letters)); v.Status != Held || v.Outcome != Parked || v.Want != Parked {
			t.Errorf("parked %d times: %s", letters, explain(v))
		}
	}
	for name, change := range map[string]func(*Record){
		"nowhere":          func(r *Record) { r.Parked, r.Ready["push.dlq"] = nil, 0 },
		"on its way":       func(r *Record) { r.Parked, r.Ready["push.dlq"], r.Ready["notify.push.retry.1s"] = nil, 0, 1 },
		"accepted":         func(r *Record) { r.Ledger[victim] = 1 },
		"parked, and more": func(r *Record) { r.Ready["notify.push.retry.500ms"] = 1 },
		"parked by others": func(r *Record) { r.Parked[0].Reason = "delivery_limit" },
		"another's letter": func(r *Record) { r.Parked[0].Body = notify.Encode(two()) },
		"two, one seen":    func(r *Record) { r.Ready["push.dlq"] = 2 },
		"no crash":         func(r *Record) { r.Events[1].Kind = event.Note },
		"a record left":    func(r *Record) { r.Records[victim] = Seen{Claimed, day} },
	} {
		if v := judge(who, good(1).altered(change)); v.Status != NotHeld {
			t.Errorf("%s: %s", name, v.Status)
		}
	}
}

// TestCells_by_chance: once or twice, and nothing else.
func TestCells_by_chance(t *testing.T) {
	t.Parallel()
	s := stopSpecimen(event.Settings{Ack: "early"}, 1, Seen{State: NoRecord},
		w1(event.Received), w1(event.Acked), accepted(), w1(event.Stopped), forgotten(), w1(event.Woke), w1(event.Sent), ready())
	judge := named(t, "ack-early/mid-send/stop").judge
	for times, want := range map[int]Status{0: NotHeld, 1: Held, 2: Held, 3: NotHeld} {
		v := judge(s.cast, s.record.altered(func(r *Record) { r.Ledger[Subject{one().ID, push}] = times }))
		if v.Status != want || v.Status == Held && v.Want != v.Outcome {
			t.Errorf("%d accepted: want %s: %s", times, want, explain(v))
		}
	}
}

// allSpecimens are those of the lessons and of the cells.
func allSpecimens() map[string]specimen {
	all := specimens()
	maps.Copy(all, cellSpecimens())
	return all
}
