package scenario

import (
	"fmt"
	"slices"
	"strings"

	"notifylab/internal/event"
)

// Checks of what a log holds and who reads it.

// logHolds checks that all of these are in the log, each once, and nothing else is.
func (r *Record) logHolds(ids []string) Finding {
	times := map[string]int{}
	others := 0
	for _, partition := range r.Passes.Log {
		for _, id := range partition {
			if times[id]++; !slices.Contains(ids, id) {
				others++
			}
		}
	}
	f := eachTime("the log, in the end", "held", ids, 1, func(id string) int { return times[id] })
	if others > 0 {
		f.OK, f.Got = false, quantity(others, "records")+" of nobody's"
	}
	return f
}

// where returns the place of an event in the log.
func (p *PassRecord) where(id string) (partition int, offset int64, ok bool) {
	for partition, ids := range p.Log {
		if i := slices.Index(ids, id); i >= 0 {
			return partition, int64(i), true
		}
	}
	return 0, 0, false
}

// readInOrder checks that a group read these of a partition, each once, in this order.
func (r *Record) readInOrder(group string, partition int, want []string) Finding {
	var got []string
	for _, e := range r.Events {
		if e.Kind == event.Read && e.Group == group && e.Position != nil && e.Partition == partition {
			got = append(got, e.ID)
		}
	}
	f := Finding{What: fmt.Sprintf("read by %s, P%d", group, partition), Want: briefs(want), Got: briefs(got), OK: slices.Equal(got, want)}
	if !f.OK {
		f.IDs = append(differing(got, want), differing(want, got)...)
	}
	return f
}

// A share is one partition in one generation of a group.
type share struct {
	partition  int
	generation int64
}

// oneOwner checks, by the reads and not by the plan, that in each generation of a group
// each partition was read by one member alone.
func (r *Record) oneOwner(group string) Finding {
	f := Finding{What: group + ", readers of a partition", Want: "one, in each generation"}
	owners := map[share]string{}
	var wrong []string
	for _, e := range r.Events {
		if e.Kind != event.Read || e.Group != group || e.Position == nil {
			continue
		}
		at := share{e.Partition, e.Generation}
		if owner, there := owners[at]; there && owner != e.Source {
			wrong = append(wrong, fmt.Sprintf("P%d in %d: %s and %s", at.partition, at.generation, owner, e.Source))
			f.IDs = append(f.IDs, e.ID)
			continue
		}
		owners[at] = e.Source
	}
	return f.ended(len(owners) == 0, "nobody read anything", wrong)
}

// forward checks that a group never committed less than before in any partition.
func (r *Record) forward(group string) Finding {
	f := Finding{What: group + ", cursors", Want: "only forward"}
	last := map[int]int64{}
	var wrong []string
	for _, e := range r.Events {
		if e.Kind != event.Committed || e.Group != group || e.Position == nil {
			continue
		}
		if before, ever := last[e.Partition]; ever && e.Offset < before {
			wrong = append(wrong, fmt.Sprintf("P%d from %d to %d", e.Partition, before, e.Offset))
			f.IDs = append(f.IDs, e.ID)
		}
		last[e.Partition] = e.Offset
	}
	return f.ended(len(last) == 0, "nothing was committed", wrong)
}

// keysStay checks that all events of a pass are in one partition.
func (r *Record) keysStay(ids []string) Finding {
	f := Finding{What: "each pass", Want: "in one partition"}
	at := map[string]int{}
	var wrong []string
	for _, id := range ids {
		partition, _, ok := r.Passes.where(id)
		pass := r.Passes.pass(id)
		first, seen := at[pass]
		switch {
		case !ok:
			wrong = append(wrong, brief(id)+" is nowhere")
			f.IDs = append(f.IDs, id)
		case seen && first != partition:
			wrong = append(wrong, fmt.Sprintf("%s in P%d and P%d", pass, first, partition))
			f.IDs = append(f.IDs, id)
		default:
			at[pass] = partition
		}
	}
	return f.ended(len(ids) == 0, "none was published", wrong)
}

// orderKept checks that the provider accepted the events of each pass in the order in
// which they were published.
func (r *Record) orderKept(ids []string) Finding {
	f := Finding{What: "provider, order within a pass", Want: "as published"}
	byPass := map[string][]string{}
	for _, s := range r.Order {
		if s.Channel == told && slices.Contains(ids, s.ID) {
			byPass[r.Passes.pass(s.ID)] = append(byPass[r.Passes.pass(s.ID)], s.ID)
		}
	}
	var wrong []string
	for pass, got := range byPass {
		var want []string
		for _, id := range ids {
			if r.Passes.pass(id) == pass {
				want = append(want, id)
			}
		}
		if !slices.Equal(got, want) {
			wrong = append(wrong, pass+": "+strings.ReplaceAll(briefs(got), " ", ", "))
			f.IDs = append(f.IDs, differing(got, want)...)
		}
	}
	slices.Sort(wrong)
	return f.ended(len(byPass) == 0, "none was accepted", wrong)
}

// apart checks that two events are in different partitions.
func (r *Record) apart(what, one, other string) Finding {
	p, _, there := r.Passes.where(one)
	q, _, there2 := r.Passes.where(other)
	f := Finding{What: what, Want: "across two partitions", Got: "across two partitions", OK: there && there2 && p != q, IDs: []string{one, other}}
	if !f.OK {
		f.Got = fmt.Sprintf("within P%d", p)
	}
	return f
}
