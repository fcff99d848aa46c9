package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"notifylab/internal/event"
)

// An alteration changes one fact of a record that held.
type alteration struct {
	name   string
	change func(*Record)
	id     string // whom the judge has to name, or
	queue  string // what
}

// alterations are all that can be wrong with a specimen, one thing at a time.
func alterations(s specimen) []alteration {
	var all []alteration
	for _, subject := range subjects(s.record.Ledger) {
		for _, by := range []int{-1, +1} {
			all = append(all, alteration{fmt.Sprintf("ledger %v %+d", subject, by), func(r *Record) { r.Ledger[subject] += by }, subject.ID, ""})
		}
	}
	for _, subject := range subjects(s.record.Refused) {
		for _, by := range []int{-1, +1} {
			all = append(all, alteration{fmt.Sprintf("refused %v %+d", subject, by), func(r *Record) { r.Refused[subject] += by }, subject.ID, ""})
		}
	}
	for queue := range s.record.Ready {
		for _, n := range []int{0, 1, 2, gone} {
			if n != s.record.Ready[queue] {
				all = append(all, alteration{fmt.Sprintf("%s holds %d", queue, n), func(r *Record) { r.Ready[queue] = n }, "", queue})
			}
		}
	}
	all = append(all, recordAlterations(s)...)
	for i, p := range s.record.Parked {
		id := cmp.Or(p.ID, s.victim.ID)
		all = append(all,
			alteration{"nothing parked", func(r *Record) { r.Parked = nil }, id, ""},
			alteration{"parked with a space more", func(r *Record) { r.Parked[i].Body = append(slices.Clone(p.Body), ' ') }, id, ""},
			alteration{"parked elsewhere", func(r *Record) { r.Parked[i].Queue = "sms.dlq" }, id, ""},
			alteration{"parked after 2", func(r *Record) { r.Parked[i].Attempts = 2 }, id, ""},
			alteration{"parked for another reason", func(r *Record) { r.Parked[i].Reason = "delivery_limit" }, id, ""})
	}
	return append(all, eventAlterations(s)...)
}

func subjects(m map[Subject]int) []Subject {
	var all []Subject
	for s := range m {
		all = append(all, s)
	}
	return all
}

func recordAlterations(s specimen) []alteration {
	var all []alteration
	wrong := func(what string, where func(*Record) map[Subject]Seen, subject Subject) {
		right := where(s.record)[subject]
		for _, seen := range []Seen{{}, {State: NoRecord}, {Claimed, day}, {Pending, 9 * time.Second}, {Done, day}} {
			if seen.State != right.State {
				all = append(all, alteration{what + seen.String(), func(r *Record) { where(r)[subject] = seen }, subject.ID, ""})
			}
		}
		if right.State == NoRecord {
			return
		}
		for _, ttl := range []time.Duration{-1, 0, retention + time.Second} {
			all = append(all, alteration{fmt.Sprintf("%sttl %v", what, ttl), func(r *Record) { where(r)[subject] = Seen{right.State, ttl} }, subject.ID, ""})
		}
		if right.State != Pending { // a lease's time to live on what is to be remembered
			all = append(all, alteration{what + "ttl of a lease", func(r *Record) { where(r)[subject] = Seen{right.State, 9 * time.Second} }, subject.ID, ""})
		}
	}
	for subject := range s.record.Records {
		wrong("record ", func(r *Record) map[Subject]Seen { return r.Records }, subject)
	}
	for subject, seen := range s.record.AtCrash {
		if seen.State == Pending { // else it is no lesson's business
			wrong("at the crash ", func(r *Record) map[Subject]Seen { return r.AtCrash }, subject)
		}
	}
	return all
}

func eventAlterations(s specimen) []alteration {
	var all []alteration
	for i, e := range s.record.Events {
		if s.idle(e) {
			continue
		}
		id := e.ID
		if id == "" {
			id = s.victim.ID
			if s.blamed != nil {
				id = s.blamed(e)
			}
		}
		name := fmt.Sprintf("event %d, %s of %s, ", i, e.Kind, id)
		at := func(change func(*event.Event)) func(*Record) {
			return func(r *Record) { change(&r.Events[i]) }
		}
		all = append(all,
			alteration{name + "missing", func(r *Record) { r.Events = slices.Delete(r.Events, i, i+1) }, id, ""})
		if e.ID != "" {
			all = append(all,
				alteration{name + "about another", at(func(e *event.Event) { e.ID = "k7f3-9" }), id, ""},
				alteration{name + "on another channel", at(func(e *event.Event) { e.Channel = "sms" }), id, ""})
		}
		switch e.Kind {
		case event.Sent, event.Crash, event.Stopped:
			if e.ID != s.behind.ID { // of which the ledger is asked
				all = append(all, alteration{name + "twice", func(r *Record) { r.Events = slices.Insert(r.Events, i, e) }, id, ""})
			}
		case event.Restart:
			all = append(all,
				alteration{name + "after an exit", at(func(e *event.Event) { e.Exit = "exit 1" }), id, ""},
				alteration{name + "of another", at(func(e *event.Event) { e.Owner = "sms-worker-1" }), id, ""})
		case event.Received:
			if e.Redelivered {
				all = append(all, alteration{name + "not redelivered", at(func(e *event.Event) { e.Redelivered = false }), id, ""})
			}
		case event.Retry:
			all = append(all,
				alteration{name + "other back-off", at(func(e *event.Event) { e.BackoffMS++ }), id, ""},
				alteration{name + "twice", func(r *Record) { r.Events = slices.Insert(r.Events, i, e) }, id, ""})
		case event.Note:
			if e.Owner != "" { // a server
				all = append(all, alteration{name + "of another server", at(func(e *event.Event) { e.Owner = "another" }), id, ""})
			} else {
				all = append(all,
					alteration{name + "one more", at(func(e *event.Event) { e.Messages++ }), id, ""},
					alteration{name + "one less", at(func(e *event.Event) { e.Messages-- }), id, ""})
			}
			all = append(all, alteration{name + "by a worker", at(func(e *event.Event) { e.Source = "email-worker-1" }), id, ""})
		case event.Ready, event.Disconnect, event.Reconnected:
			if !slices.ContainsFunc(s.record.Events, func(e event.Event) bool { return e.Kind == event.Note && e.Owner != "" }) {
				continue // no server was harmed, and what a worker goes through is not judged
			}
			all = append(all,
				alteration{name + "twice", func(r *Record) { r.Events = slices.Insert(r.Events, i, e) }, id, ""},
				alteration{name + "in another life", func(r *Record) { r.Events = slices.Insert(r.Events, i, restarted()) }, id, ""})
		}
	}
	return all
}

func TestJudges_fail_each_altered_specimen(t *testing.T) {
	t.Parallel()
	for name, s := range allSpecimens() {
		scenario := named(t, name)
		all := alterations(s)
		if len(all) < 30 {
			t.Errorf("%s: only %d alterations", name, len(all))
		}
		for _, a := range all {
			v := scenario.judge(s.cast, s.record.altered(a.change))
			if v.Status != NotHeld {
				t.Errorf("%s, %s: %s", name, a.name, v.Status)
			} else if !a.named(v) {
				t.Errorf("%s, %s: does not name %s%s: %s", name, a.name, a.id, a.queue, explain(Verdict{Findings: v.Findings}))
			}
		}
	}
}

// named says whether a finding that failed names the offender.
func (a alteration) named(v Verdict) bool {
	return slices.ContainsFunc(v.Findings, func(f Finding) bool {
		return !f.OK && (a.id != "" && slices.Contains(f.IDs, a.id) ||
			a.queue != "" && strings.Contains(f.What+" "+f.Got, a.queue))
	})
}

// TestJudges_want_their_order swaps what must come one after the other.
func TestJudges_want_their_order(t *testing.T) {
	t.Parallel()
	move := func(from, to func(event.Event) bool) func(*Record) {
		return func(r *Record) {
			i := slices.IndexFunc(r.Events, from)
			e := r.Events[i]
			r.Events = slices.Delete(r.Events, i, i+1)
			r.Events = slices.Insert(r.Events, slices.IndexFunc(r.Events, to), e)
		}
	}
	is := func(kind event.Kind, id, channel string) func(event.Event) bool {
		return func(e event.Event) bool { return e.Kind == kind && e.ID == id && e.Channel == channel }
	}
	cases := []struct {
		lesson, name string
		change       func(*Record)
	}{
		{"crash", "sent after the crash", move(is(event.Crash, "k7f3-1", push), is(event.Received, "k7f3-1", push))},
		{"crash", "restart before the crash", move(is(event.Restart, "", ""), is(event.Crash, "k7f3-1", push))},
		{"idempotency", "dropped before the crash", move(is(event.DuplicateDropped, "k7f3-1", push), is(event.Crash, "k7f3-1", push))},
		{"claim-lease", "done before the crash", move(is(event.Done, "k7f3-1", push), is(event.Crash, "k7f3-1", push))},
		{"claim-lease", "recovered before the crash", move(is(event.ClaimRecovered, "k7f3-1", push), is(event.Crash, "k7f3-1", push))},
		{"dead-letter", "dead letter first", move(is(event.DeadLetter, "k7f3-1", push), is(event.Retry, "k7f3-1", push))},
		{"dead-letter", "the one behind waits", func(r *Record) {
			i := slices.IndexFunc(r.Events, is(event.Sent, "k7f3-2", push))
			r.Events = append(slices.Delete(r.Events, i, i+1), said(two(), push, event.Sent))
		}},
		{"fan-out", "email first, although its worker was down", move(is(event.Received, "k7f3-2", email), is(event.Sent, "k7f3-2", push))},
		{"lease/after-claim/stop", "lease lost before it was stopped", move(is(event.LeaseLost, "k7f3-1", push), is(event.Stopped, "k7f3-1", push))},
		{"lease/after-claim/stop", "woken before another had it", move(is(event.Woke, "k7f3-1", push), is(event.LeaseBusy, "k7f3-1", push))},
		{"lease/after-claim/stop", "ready before another had it", move(is(event.Ready, "", push), is(event.Stopped, "k7f3-1", push))},
		{"record/before-send/stop", "accepted before it was forgotten", move(is(event.Accepted, "k7f3-1", push), is(event.Note, "k7f3-1", push))},
		{"lease/mid-send/twins", "sent before the first woke", move(is(event.Sent, "k7f3-1", push), is(event.Woke, "k7f3-1", push))},
		{"fan-out", "push waits for the slow email", move(is(event.Sent, "k7f3-3", email), is(event.Sent, "k7f3-3", push))},
	}
	for _, c := range cases {
		s := allSpecimens()[c.lesson]
		if v := named(t, c.lesson).judge(s.cast, s.record.altered(c.change)); v.Status != NotHeld {
			t.Errorf("%s, %s: %s", c.lesson, c.name, v.Status)
		}
	}
}
