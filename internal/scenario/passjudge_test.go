package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"notifylab/internal/event"
)

func TestPassJudges_pass_their_specimens(t *testing.T) {
	t.Parallel()
	for name, s := range passSpecimens(t) {
		scenario := named(t, name)
		v := scenario.judge(s.cast, s.record)
		if v.Status != Held || v.Outcome != scenario.Outcome || v.Want != scenario.Outcome {
			t.Errorf("want held, %s: %s", scenario.Outcome, explain(v))
		}
	}
}

// TestPassJudges_pass_nothing: a run in which nothing happened holds nothing, and no
// judge falls over it.
func TestPassJudges_pass_nothing(t *testing.T) {
	t.Parallel()
	for name, s := range passSpecimens(t) {
		v := named(t, name).judge(s.cast, &Record{})
		if v.Status != NotHeld {
			t.Errorf("%s: %s", name, explain(v))
		}
	}
}

// factAlterations change one thing that was counted: each must be found, and named.
func factAlterations(s specimen, judged string) []alteration {
	var all []alteration
	for _, subject := range subjects(s.record.Ledger) {
		for _, by := range []int{-1, +1} {
			all = append(all, alteration{fmt.Sprintf("ledger %v %+d", subject, by), func(r *Record) { r.Ledger[subject] += by }, subject.ID, ""})
		}
	}
	for queue, n := range s.record.Ready {
		for _, other := range []int{n + 1, gone} {
			if strings.Contains(judged, queue+",") && other != n {
				all = append(all, alteration{fmt.Sprintf("%s holds %d", queue, other), func(r *Record) { r.Ready[queue] = other }, "", queue})
			}
		}
	}
	for p, ids := range s.record.Passes.Log {
		for i, id := range ids {
			if !strings.Contains(judged, "the log,") || i > 0 && i < len(ids)-1 {
				continue
			}
			all = append(all,
				alteration{fmt.Sprintf("P%d without %s", p, id), func(r *Record) { r.Passes.Log[p] = slices.Delete(r.Passes.Log[p], i, i+1) }, id, ""},
				alteration{fmt.Sprintf("P%d with %s twice", p, id), func(r *Record) { r.Passes.Log[p] = append(r.Passes.Log[p], id) }, id, ""})
		}
	}
	for group, cursors := range s.record.Passes.Cursors {
		for p := range cursors {
			if what := fmt.Sprintf("cursor of %s, P%d", group, p); strings.Contains(judged, what) {
				all = append(all, alteration{what + " back", func(r *Record) { r.Passes.Cursors[group][p]-- }, "", what},
					alteration{what + " none", func(r *Record) { delete(r.Passes.Cursors[group], p) }, "", what})
			}
		}
	}
	return all
}

// anyEvent changes one event each in every way that a judge may look at.
func anyEvent(s specimen) []alteration {
	var all []alteration
	for _, i := range varied(s.record.Events) {
		e := s.record.Events[i]
		name := fmt.Sprintf("event %d, %s of %s by %s, ", i, e.Kind, e.ID, e.Source)
		at := func(what string, change func(*event.Event)) {
			all = append(all, alteration{name + what, func(r *Record) { change(&r.Events[i]) }, "", ""})
		}
		all = append(all,
			alteration{name + "missing", func(r *Record) { r.Events = slices.Delete(r.Events, i, i+1) }, "", ""},
			alteration{name + "twice", func(r *Record) { r.Events = slices.Insert(r.Events, i, e) }, "", ""},
			alteration{name + "by another, too", func(r *Record) {
				e := e
				e.Source += "-2"
				r.Events = slices.Insert(r.Events, i+1, e)
			}, "", ""},
			alteration{name + "first", func(r *Record) { r.Events = slices.Insert(slices.Delete(r.Events, i, i+1), 0, e) }, "", ""},
			alteration{name + "last", func(r *Record) { r.Events = append(slices.Delete(r.Events, i, i+1), e) }, "", ""})
		at("of another", func(e *event.Event) { e.Source, e.Owner = e.Source+"-2", e.Owner+"-2" })
		at("by another process", func(e *event.Event) { e.PID++ })
		at("with other numbers", func(e *event.Event) { e.Messages, e.Elapsed, e.Generation = e.Messages+1, 1, e.Generation+1 })
		at("redelivered, or not", func(e *event.Event) { e.Redelivered = !e.Redelivered })
		at("long before", func(e *event.Event) { e.Time = e.Time.Add(-time.Hour) })
		at("long after", func(e *event.Event) { e.Time = e.Time.Add(time.Hour) })
		at("exited", func(e *event.Event) { e.Exit = "exit 1" })
		if e.Position != nil {
			at("elsewhere", func(e *event.Event) { e.Partition = (e.Partition + 1) % logPartitions })
			at("further on", func(e *event.Event) { e.Offset += 7 })
			at("back", func(e *event.Event) { e.Offset -= 7 })
		}
	}
	return all
}

// varied returns the places of all events, one of each sort first.
func varied(events []event.Event) []int {
	seen := map[string]bool{}
	var first, rest []int
	for i, e := range slices.Backward(events) {
		if what := fmt.Sprint(e.Kind, e.Source, e.Membership); !seen[what] {
			seen[what] = true
			first = append(first, i)
		} else {
			rest = append(rest, i)
		}
	}
	return append(first, rest...)
}

// orders are alterations of orders and places.
func orders(s specimen) []alteration {
	all := []alteration{{"the ledger's order reversed", func(r *Record) { slices.Reverse(r.Order) }, "", ""}}
	for p := range s.record.Passes.Log {
		all = append(all, alteration{fmt.Sprintf("P%d in the next one", p), func(r *Record) {
			log := r.Passes.Log
			if n := len(log); n > 1 && len(log[p]) > 0 {
				last := len(log[p]) - 1
				log[(p+1)%n], log[p] = append(log[(p+1)%n], log[p][last]), log[p][:last]
			}
		}, "", ""})
	}
	if log := s.record.Passes.Log; len(log) > 1 {
		all = append(all, alteration{"all in P0", func(r *Record) {
			r.Passes.Log = [][]string{slices.Concat(r.Passes.Log...), nil, nil, nil}
		}, "", ""})
	}
	for _, x := range s.record.Passes.Published {
		all = append(all,
			alteration{"the pass of " + x.ID + " there", func(r *Record) { r.Passes.Left[x.Pass] = x.User }, x.ID, ""},
			alteration{"the pass of " + x.ID + " gone", func(r *Record) { delete(r.Passes.Left, x.Pass) }, x.ID, ""})
	}
	if len(s.record.Passes.Published) > 0 {
		all = append(all, alteration{"one more published", func(r *Record) {
			r.Passes.Published = append(r.Passes.Published, r.Passes.Published[0])
		}, "", ""})
	}
	return all
}

// special are alterations of more than one thing, or of what only one judge looks at.
func special(name string) []alteration {
	at := func(r *Record, id string, change func(*event.Event)) {
		for i := range r.Events {
			if r.Events[i].ID == id {
				change(&r.Events[i])
			}
		}
	}
	switch name {
	case "fifo":
		return []alteration{{"one is parked", func(r *Record) { r.Ready["push.dlq"] = 1 }, "", ""}}
	case "competing":
		return []alteration{{"another worker has it at once", func(r *Record) {
			at(r, "k7f3-37", func(e *event.Event) {
				e.Source = "single-b"
				if e.Kind == event.Acked {
					e.Time = e.Time.Add(time.Hour)
				} else {
					e.Time = e.Time.Add(-time.Hour)
				}
			})
		}, "", ""}}
	case "destructive-read":
		all := func(by int) func(*Record) {
			return func(r *Record) {
				for _, id := range r.Passes.ids(1, readEvents) {
					r.Ledger[Subject{id, told}] = by
					r.Passes.Left[r.Passes.pass(id)] = "1"
					if by == 0 {
						delete(r.Passes.Left, r.Passes.pass(id))
					}
				}
			}
		}
		return []alteration{{"notify got all", all(1), "", ""}, {"delete-pass got all", all(0), "", ""}}
	}
	return nil
}

// TestPassJudges_fail_each_altered_specimen: what was counted can't be otherwise without
// being found and named, and every single check fails for one alteration at least.
func TestPassJudges_fail_each_altered_specimen(t *testing.T) {
	t.Parallel()
	together(t, 2, slices.Sorted(maps.Keys(passSpecimens(t))), func(name string) string { return name }, func(t *testing.T, name string) {
		s, scenario := passSpecimens(t)[name], named(t, name)
		held := scenario.judge(s.cast, s.record)
		var judged strings.Builder
		for _, f := range held.Findings {
			judged.WriteString(f.What + "\n")
		}
		failed := make([]bool, len(held.Findings))
		try := func(a alteration) Verdict {
			altered := s.record.clone()
			a.change(altered)
			v := scenario.judge(s.cast, altered)
			for i, f := range v.Findings {
				failed[i] = failed[i] || !f.OK
			}
			return v
		}
		facts := factAlterations(s, judged.String())
		if len(facts) < 5 {
			t.Errorf("%s: only %d alterations", name, len(facts))
		}
		for _, a := range facts {
			if v := try(a); v.Status != NotHeld {
				t.Errorf("%s, %s: %s", name, a.name, v.Status)
			} else if !a.named(v) {
				t.Errorf("%s, %s: does not name %s%s: %s", name, a.name, a.id, a.queue, explain(Verdict{Findings: v.Findings}))
			}
		}
		for _, a := range slices.Concat(special(name), orders(s), anyEvent(s)) {
			if !slices.Contains(failed, false) {
				break
			}
			try(a)
		}
		for i, f := range held.Findings {
			if !failed[i] {
				t.Errorf("%s: no history fails %q, %s", name, f.What, f.Want)
			}
		}
	})
}
