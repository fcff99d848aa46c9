package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// Checks are pure: they look at a record and say what they wanted and what they
// got.

// accepted checks how often the provider accepted something.
func (r *Record) accepted(what string, s Subject, want int) Finding {
	return number("provider, "+what, want, r.Ledger[s], "accepted", s.ID)
}

// refusals checks how often the provider refused something.
func (r *Record) refusals(what string, s Subject, want int) Finding {
	return number("provider, "+what, want, r.Refused[s], "refused", s.ID)
}

func number(what string, want, got int, unit string, ids ...string) Finding {
	return Finding{What: what, Want: quantity(want, unit), Got: quantity(got, unit), OK: got == want, IDs: ids}
}

func quantity(n int, unit string) string {
	if n == 1 {
		unit = strings.TrimSuffix(unit, "s")
	}
	return fmt.Sprintf("%d %s", n, unit)
}

// said checks that events of those kinds happened to a subject, in this order,
// whatever else happened.
func (r *Record) said(what string, s Subject, want ...event.Kind) Finding {
	var got []event.Kind
	for _, e := range r.Events {
		if len(got) < len(want) && about(e, s) && e.Kind == want[len(got)] {
			got = append(got, e.Kind)
		}
	}
	return Finding{What: what, Want: words(want...), Got: words(got...), OK: len(got) == len(want), IDs: []string{s.ID}}
}

// times checks how many events of a kind happened to a subject.
func (r *Record) times(what string, s Subject, kind event.Kind, want int) Finding {
	return number(what, want, r.count(s, kind), words(kind), s.ID)
}

func (r *Record) count(s Subject, kind event.Kind) int {
	n := 0
	for _, e := range r.Events {
		if about(e, s) && e.Kind == kind {
			n++
		}
	}
	return n
}

func about(e event.Event, s Subject) bool { return e.ID == s.ID && e.Channel == s.Channel }

func words(kinds ...event.Kind) string {
	var w []string
	for _, k := range kinds {
		w = append(w, strings.ReplaceAll(string(k), "_", " "))
	}
	if len(w) == 0 {
		return "nothing"
	}
	return strings.Join(w, ", ")
}

// revived checks that the worker said once that it would die, did so, by SIGKILL,
// and was started again; and whether the message came again after that.
func (r *Record) revived(s Subject, redelivered bool) Finding {
	f := Finding{What: "after the crash", Want: "killed, restarted", Got: "nothing", IDs: []string{s.ID}}
	if redelivered {
		f.Want += ", redelivered"
	}
	crash, rest := next(r.Events, func(e event.Event) bool { return e.Kind == event.Crash && about(e, s) })
	restart, rest := next(rest, func(e event.Event) bool { return e.Kind == event.Restart && e.Owner == crash.Source })
	if restart.Kind == "" {
		return f
	}
	f.Got = restart.Exit + ", restarted"
	again, _ := next(rest, func(e event.Event) bool { return e.Kind == event.Received && about(e, s) && e.Redelivered })
	if again.Kind != "" {
		f.Got += ", redelivered"
	}
	if n := r.count(s, event.Crash); n > 1 {
		f.Got += fmt.Sprintf(", %d crashes", n)
	}
	f.OK = f.Got == f.Want
	return f
}

// next returns the first event that matches and those after it, or nothing.
func next(events []event.Event, match func(event.Event) bool) (event.Event, []event.Event) {
	i := slices.IndexFunc(events, match)
	if i < 0 {
		return event.Event{}, nil
	}
	return events[i], events[i+1:]
}

// record checks what a record says in the end, and that it will be forgotten when
// it should be.
func (r *Record) record(s Subject, want State, memory time.Duration) Finding {
	return r.seen("redis record", r.Records[s], s, want, memory)
}

// recordAtCrash checks what it said while the worker was dead.
func (r *Record) recordAtCrash(s Subject, want State, memory time.Duration) Finding {
	return r.seen("redis record at the crash", r.AtCrash[s], s, want, memory)
}

// slack is how much the clocks of Redis and of this machine may differ in a run.
const slack = time.Minute

func (r *Record) seen(what string, got Seen, s Subject, want State, memory time.Duration) Finding {
	f := Finding{What: what, IDs: []string{s.ID}, Want: string(want), Got: got.String(), OK: got.State == want}
	if want == NoRecord {
		return f
	}
	f.Want += ", at most " + event.Short(memory)
	// It was written in this run, so no more than that is gone of its time.
	f.OK = f.OK && got.TTL > 0 && got.TTL <= memory && got.TTL >= memory-r.Elapsed-slack
	return f
}

func (s Seen) String() string {
	switch {
	case s.State == "":
		return "not looked at"
	case s.State == NoRecord:
		return string(NoRecord)
	case s.TTL < 0:
		return string(s.State) + ", for ever"
	case s.TTL < time.Minute:
		return fmt.Sprintf("%s, %.1fs", s.State, s.TTL.Seconds())
	}
	return fmt.Sprintf("%s, %s", s.State, s.TTL.Truncate(time.Second))
}

// ready checks how many messages a queue holds, now that nobody has any in hand.
func (r *Record) ready(queue string, want int) Finding {
	got, ok := r.Ready[queue]
	f := number(queue+", workers stopped", want, got, "messages")
	if !ok || got == gone {
		f.Got, f.OK = "no such queue", false
	}
	return f
}

// elsewhere checks that the queues that are not named hold nothing.
func (r *Record) elsewhere(but ...string) Finding {
	f := Finding{What: "other queues, workers stopped", Want: "0 messages", Got: "0 messages", OK: true}
	var held []string
	for q, n := range r.Ready {
		switch {
		case slices.Contains(but, q) || n == 0:
		case n == gone:
			held = append(held, "no queue "+q)
		default:
			held = append(held, fmt.Sprintf("%s %d", q, n))
		}
	}
	if len(held) > 0 {
		slices.Sort(held)
		f.Got, f.OK = strings.Join(held, ", "), false
	}
	return f
}

// fate says what became of a notification on a channel, by the ledger. It could
// still be somewhere if anything waits in a queue from which it could be sent.
func (r *Record) fate(n notify.Notification, c notify.Channel) Fate {
	s := Subject{n.ID, string(c)}
	parked := slices.ContainsFunc(r.Parked, func(p ParkedMessage) bool {
		return p.Queue == string(c)+".dlq" && p.is(n)
	})
	left := false
	for q, n := range r.Ready {
		left = left || n > 0 && (q == "notify."+string(c) || strings.HasPrefix(q, "notify."+string(c)+".retry."))
	}
	return Fate{ID: n.ID, Channel: string(c), Accepted: r.Ledger[s], Outcome: outcome(r.Ledger[s], parked, left)}
}

// order checks that the first event that one matches came before the first that
// the other does.
func (r *Record) order(what string, one, other func(event.Event) bool, ids ...string) Finding {
	f := Finding{What: what, Want: "before", IDs: ids}
	a, b := slices.IndexFunc(r.Events, one), slices.IndexFunc(r.Events, other)
	switch {
	case a < 0:
		f.Got = "never"
	case b < 0:
		f.Got = "the other never came"
	case b < a:
		f.Got = "after"
	default:
		f.Got, f.OK = "before", true
	}
	return f
}

// noted checks a number that the scenario looked up in the middle of the run.
func (r *Record) noted(what string, s Subject, want int, unit string) Finding {
	f := Finding{What: what, Want: quantity(want, unit), Got: "never looked at", IDs: []string{s.ID}}
	for _, e := range r.Events {
		if e.Kind == event.Note && e.Source == source && about(e, s) {
			f = number(what, want, e.Messages, unit, s.ID)
		}
	}
	return f
}

// eachAccepted checks that the provider accepted each of some notifications so often.
func (r *Record) eachAccepted(what string, all []notify.Notification, c notify.Channel, want int) Finding {
	return each("provider, "+what, often(want), all, func(n notify.Notification) bool { return r.Ledger[subject(n, c)] == want })
}

// each checks that something is so of all of some notifications, and names those of
// which it is not.
func each(what, so string, all []notify.Notification, is func(notify.Notification) bool) Finding {
	f := Finding{What: what, Want: fmt.Sprintf("%d %s", len(all), so)}
	got := 0
	for _, n := range all {
		if is(n) {
			got++
		} else {
			f.IDs = append(f.IDs, n.ID)
		}
	}
	f.Got, f.OK = fmt.Sprintf("%d %s", got, so), got == len(all)
	return f
}

func often(n int) string {
	switch n {
	case 0:
		return "never accepted"
	case 1:
		return "accepted once"
	case 2:
		return "accepted twice"
	}
	return fmt.Sprintf("accepted %d times", n)
}

// redelivered checks how often the broker handed a subject over again.
func (r *Record) redelivered(what string, s Subject, want int) Finding {
	return number(what+", handed over again", want, r.again(s), "times", s.ID)
}

func (r *Record) again(s Subject) int {
	n := 0
	for _, e := range r.Events {
		if e.Kind == event.Received && about(e, s) && e.Redelivered {
			n++
		}
	}
	return n
}

// eachRedelivered checks that each of some notifications was handed over again, or that
// none was.
func (r *Record) eachRedelivered(what string, all []notify.Notification, c notify.Channel, want bool) Finding {
	so := "redelivered"
	if !want {
		so = "not redelivered"
	}
	return each(what, so, all, func(n notify.Notification) bool { return (r.again(subject(n, c)) > 0) == want })
}

// restarts checks how often a channel's workers were started again after they had
// ended so, because of those that are named.
func (r *Record) restarts(c notify.Channel, exit string, want int, ids ...string) Finding {
	got := 0
	for _, e := range r.Events {
		if e.Kind == event.Restart && strings.HasPrefix(e.Owner, string(c)+"-worker") && e.Exit == exit {
			got++
		}
	}
	return number(string(c)+" worker, "+exit, want, got, "restarts", ids...)
}
