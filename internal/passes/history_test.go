package passes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"notifylab/internal/event"
)

// What a run of readers has to be like, judged from what they said they read, did and
// committed, and from what is in the log; their plans are not asked.

// share is one partition of one group.
type share struct {
	group     string
	partition int
}

// judge says what is wrong with a history of readers that handle first: with owners,
// with the order of reads, with where a generation begins, with commits. What they did
// is told by done.
func judge(events []event.Event) (wrong []string) {
	fault := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	type inGeneration struct {
		share
		generation int64
	}
	reads, owner, committed := map[inGeneration][]int64{}, map[inGeneration]string{}, map[inGeneration]int64{}
	for _, e := range events {
		if e.Position == nil {
			continue
		}
		at := inGeneration{share{e.Group, e.Partition}, e.Generation}
		cursor, ever := committed[at]
		switch e.Kind {
		case event.Read:
			who := fmt.Sprint(e.Source, " (", e.PID, ")")
			if other, there := owner[at]; there && other != who {
				fault("%v is read by %s and %s", at, other, who)
			}
			owner[at] = who
			if before := reads[at]; len(before) > 0 {
				last := before[len(before)-1]
				again := e.Offset <= last && (!ever || e.Offset > cursor) // connected anew
				if e.Offset != last+1 && !again {
					fault("%v: after %d comes %d", at, last, e.Offset)
				}
			}
			reads[at] = append(reads[at], e.Offset)
		case event.Committed:
			if ever && e.Offset < cursor {
				fault("%v: the cursor goes from %d back to %d", at, cursor, e.Offset)
			}
			if !slices.Contains(reads[at], e.Offset) {
				fault("%v: %d is committed and was never read", at, e.Offset)
			}
			committed[at] = e.Offset
		}
	}
	// Each generation begins behind what the ones before it have committed, and what
	// it commits is beyond.
	byTime := slices.SortedFunc(maps.Keys(reads), func(a, b inGeneration) int { return cmp.Compare(a.generation, b.generation) })
	cursors := map[share]int64{}
	for _, at := range byTime {
		cursor, ever := cursors[at.share]
		if first := slices.Min(reads[at]); ever && first <= cursor {
			fault("%v: %d is read again, %d was committed", at, first, cursor)
		}
		if now, there := committed[at]; there {
			cursors[at.share] = now
		}
	}
	return wrong
}

// done says how often each event was handled in a group, by id; those of the log that
// were not are 0.
func done(events []event.Event, group string, contents [][]string) map[string]int {
	times := map[string]int{}
	for _, partition := range contents {
		for _, id := range partition {
			times[id] = 0
		}
	}
	for _, e := range events {
		if e.Kind == event.Sent && e.Group == group {
			times[e.ID]++
		}
	}
	return times
}

// otherwise lists the events that were not handled just once: e7 ×2.
func otherwise(times map[string]int) (list []string) {
	for _, id := range slices.Sorted(maps.Keys(times)) {
		if n := times[id]; n != 1 {
			list = append(list, fmt.Sprint(id, " ×", n))
		}
	}
	return list
}

func TestJudge_can_fail(t *testing.T) {
	t.Parallel()
	// fact reads "c1 read g 1 p0 5": who, what, in which generation, partition, offset.
	fact := func(text string) event.Event {
		var e event.Event
		var at event.Position
		if _, err := fmt.Sscanf(text, "%s %s %d p%d %d", &e.Source, &e.Kind, &e.Generation, &at.Partition, &at.Offset); err != nil {
			t.Fatal(text, err)
		}
		e.Group, e.Position, e.ID = "g", &at, fmt.Sprint("e", at.Offset)
		return e
	}
	for _, tt := range []struct{ history, want string }{
		{"c1 read 1 p0 0; c1 sent 1 p0 0; c1 committed 1 p0 0; c1 read 1 p0 1; c2 read 1 p1 0; c2 read 2 p0 1; c2 committed 2 p0 1", ""},
		{"c1 read 1 p0 0; c1 read 1 p0 1; c1 read 1 p0 0", ""}, // connected anew, nothing was committed
		{"c1 read 1 p0 0; c2 read 1 p0 1", "is read by c1"},
		{"c1 read 1 p0 0; c1 read 1 p0 2", "after 0 comes 2"},
		{"c1 read 1 p0 0; c1 committed 1 p0 0; c1 read 1 p0 0", "after 0 comes 0"},
		{"c1 read 1 p0 0; c1 committed 1 p0 0; c2 read 2 p0 0", "0 is read again, 0 was committed"},
		{"c1 read 1 p0 0; c1 read 1 p0 1; c1 committed 1 p0 1; c1 committed 1 p0 0", "from 1 back to 0"},
		{"c1 committed 1 p0 0", "was never read"},
	} {
		var events []event.Event
		for text := range strings.SplitSeq(tt.history, "; ") {
			events = append(events, fact(text))
		}
		wrong := strings.Join(judge(events), "; ")
		if tt.want == "" && wrong != "" || !strings.Contains(wrong, tt.want) {
			t.Errorf("%s:\n got %s\nwant %s", tt.history, wrong, tt.want)
		}
	}
	events := []event.Event{fact("c1 sent 1 p0 0"), fact("c1 sent 1 p0 1"), fact("c2 sent 2 p0 1")}
	same(t, "not just once", otherwise(done(events, "g", [][]string{{"e0", "e1"}, {"e2"}})), []string{"e1 ×2", "e2 ×0"})
	same(t, "in another group", otherwise(done(events, "h", [][]string{{"e0"}})), []string{"e0 ×0"})
}
