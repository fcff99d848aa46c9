package scenario

import (
	"fmt"
	"slices"
	"strings"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// Checks of the second chapter. They are pure, too, and name who is to blame.

// ids returns those of the published events from the n-th to the m-th, from 1.
func (p *PassRecord) ids(n, m int) []string {
	var ids []string
	for i := max(n, 1); i <= min(m, len(p.Published)); i++ {
		ids = append(ids, p.Published[i-1].ID)
	}
	return ids
}

// id is that of the n-th event, "" if so many were not published.
func (p *PassRecord) id(n int) string { return strings.Join(p.ids(n, n), "") }

// pass returns the pass of an event.
func (p *PassRecord) pass(id string) string {
	for _, x := range p.Published {
		if x.ID == id {
			return x.Pass
		}
	}
	return ""
}

// brief is an id without the run's namespace: -3.
func brief(id string) string { return "#" + id[strings.LastIndexByte(id, '-')+1:] }

func briefs(ids []string) string {
	var words []string
	for _, id := range ids {
		words = append(words, brief(id))
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, " ")
}

// eachTime checks that something happened to each of these just so often.
func eachTime(what, unit string, ids []string, want int, count func(id string) int) Finding {
	f := Finding{What: what, Want: fmt.Sprintf("%d × %s, of %d", want, unit, len(ids)), OK: len(ids) > 0}
	f.Got = f.Want
	var others []string
	for _, id := range ids {
		if n := count(id); n != want {
			f.IDs = append(f.IDs, id)
			others = append(others, fmt.Sprintf("%s × %d", brief(id), n))
		}
	}
	if len(others) > 0 {
		f.Got, f.OK = few(others), false
	}
	if len(ids) == 0 {
		f.Got = "none was published"
	}
	return f
}

// ended returns the finding with what was got: all as it should be, unless there was
// nothing to look at or some of it was wrong.
func (f Finding) ended(nothing bool, words string, wrong []string) Finding {
	switch {
	case nothing:
		f.Got = words
	case len(wrong) > 0:
		f.Got = few(wrong)
	default:
		f.Got, f.OK = f.Want, true
	}
	return f
}

// few is a list that fits into a line.
func few(words []string) string {
	const most = 5
	if len(words) > most {
		words = append(slices.Clone(words[:most]), fmt.Sprintf("and %d more", len(words)-most))
	}
	return strings.Join(words, ", ")
}

// eachTold checks that the provider accepted each so often on a channel.
func (r *Record) eachTold(what string, ids []string, channel string, want int) Finding {
	return eachTime("provider, "+what, "accepted", ids, want, func(id string) int { return r.Ledger[Subject{id, channel}] })
}

// eachSaid checks that somebody said something of each so often; "" is anybody.
func (r *Record) eachSaid(what, source string, kind event.Kind, ids []string, want int) Finding {
	times := map[string]int{}
	for _, e := range r.Events {
		if e.Kind == kind && (source == "" || e.Source == source) {
			times[e.ID]++
		}
	}
	return eachTime(what, words(kind), ids, want, func(id string) int { return times[id] })
}

// all returns the events that match, in their order.
func (r *Record) all(match func(event.Event) bool) (some []event.Event) {
	for _, e := range r.Events {
		if match(e) {
			some = append(some, e)
		}
	}
	return some
}

// sequence checks in which order the provider accepted these, each for
// the first time.
func (r *Record) sequence(what string, ids []string, want []string) Finding {
	var got []string
	for _, s := range r.Order {
		if s.Channel == told && slices.Contains(ids, s.ID) && !slices.Contains(got, s.ID) {
			got = append(got, s.ID)
		}
	}
	f := Finding{What: "provider, " + what, Want: briefs(want), Got: briefs(got), OK: slices.Equal(got, want)}
	if !f.OK {
		f.IDs = differing(got, want)
	}
	return f
}

// differing returns who is not where it should be.
func differing(got, want []string) (ids []string) {
	for i, id := range want {
		if i >= len(got) || got[i] != id {
			ids = append(ids, id)
		}
	}
	return ids
}

// killed checks how often a part was killed, and that it came again each time.
func (r *Record) killed(name string, want int) Finding {
	kills, again := 0, 0
	for _, e := range r.Events {
		switch {
		case e.Kind == event.Exited && e.Owner == name && e.Exit == "killed":
			kills++
		case e.Kind == event.Ready && e.Source == name && again < kills:
			again++
		}
	}
	text := func(kills, again int) string { return fmt.Sprintf("killed %d ×, back %d ×", kills, again) }
	return Finding{What: name + ", its processes", Want: text(want, want), Got: text(kills, again), OK: kills == want && again == want}
}

// passesLeft checks which passes of some events are still there.
func (r *Record) passesLeft(what string, of, want []string) Finding {
	var got []string
	for _, id := range of {
		if _, there := r.Passes.Left[r.Passes.pass(id)]; there {
			got = append(got, id)
		}
	}
	f := Finding{What: "passes left, " + what, Want: briefs(want), Got: briefs(got), OK: slices.Equal(got, want) && len(of) > 0}
	if !f.OK {
		f.IDs = append(differing(got, want), differing(want, got)...)
	}
	return f
}

// expiredFate says what became of an event for the reaction notify. It could still be
// handled while anything waits in a queue, or the group's cursor is before it.
func (r *Record) expiredFate(id string) Fate {
	n := r.Ledger[Subject{id, told}]
	left := false
	for _, ready := range r.Ready {
		left = left || ready > 0
	}
	for p, ids := range r.Passes.Log {
		offset := slices.Index(ids, id)
		cursor, ever := r.Passes.Cursors[reactNotify][p]
		left = left || offset >= 0 && (!ever || cursor < int64(offset))
	}
	return Fate{ID: id, Channel: string(notify.Push), Accepted: n, Outcome: outcome(n, false, left)}
}

// judgedPasses makes a verdict of what became of some events.
func judgedPasses(r *Record, ids []string, findings ...Finding) Verdict {
	var fates []Fate
	for _, id := range ids {
		fates = append(fates, r.expiredFate(id))
	}
	return judged(r, findings, fates)
}

// as says what was to come out, and why.
func (v Verdict) as(want Outcome, why string) Verdict {
	v.Want, v.Why, v.Bug = want, why, want == Lost
	if want == Lost || want == Twice {
		for _, f := range v.Outcomes {
			if f.Outcome == want && v.Victim == "" {
				v.Victim = f.ID
			}
		}
	}
	return v
}
