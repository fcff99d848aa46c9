package passes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestAssign(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		members    string
		partitions int
		want       string // the owner of each partition
		idle       string
	}{
		{"", 4, "- - - -", ""},
		{"c1", 4, "c1 c1 c1 c1", ""},
		{"c1 c2", 4, "c1 c1 c2 c2", ""}, // the picture: c1 P0 P1, c2 P2 P3
		{"c1 c2 c3", 4, "c1 c1 c2 c3", ""},
		{"c1 c2 c3 c4", 4, "c1 c2 c3 c4", ""},
		{"c1 c2 c3 c4 c5", 4, "c1 c2 c3 c4", "c5"},
		{"c1 c2 c3 c4 c5 c6", 4, "c1 c2 c3 c4", "c5 c6"},
		{"c1 c2 c3", 2, "c1 c2", "c3"}, // the picture's c3, with numbers that make it true
		{"c2 c3", 4, "c2 c2 c3 c3", ""},
		{"c1 c2 c3", 7, "c1 c1 c1 c2 c2 c3 c3", ""},
		{"c1", 1, "c1", ""},
		{"c1 c2", 1, "c1", "c2"},
		{"c1 c2", 0, "", "c1 c2"},
		{"c3 c1 c2 c1", 3, "c1 c2 c3", ""}, // in any order, and named twice
	} {
		members := strings.Fields(tt.members)
		got := Assign(members, tt.partitions)
		for i, owner := range got {
			if owner == "" {
				got[i] = "-"
			}
		}
		text := strings.Join(got, " ")
		if idle := strings.Join(Idle(members, got), " "); text != tt.want || idle != tt.idle {
			t.Errorf("%q over %d:\n got %q, idle %q\nwant %q, idle %q", tt.members, tt.partitions, text, idle, tt.want, tt.idle)
		}
	}
}

// What holds for every group: faults finds nothing in what Assign says, and something
// in what it never says.
func TestAssign_always(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for partitions := range 12 {
		for n := range 15 {
			var members []string
			for i := range n {
				members = append(members, fmt.Sprint("c", i+1))
			}
			owners := Assign(members, partitions)
			if f := faults(members, partitions, owners); f != "" {
				t.Errorf("%d members, %d partitions: %v: %s", n, partitions, owners, f)
			}
			for range 3 {
				r.Shuffle(n, func(i, j int) { members[i], members[j] = members[j], members[i] })
				same(t, fmt.Sprintf("in the order %v (seed %d)", members, seed), Assign(members, partitions), owners)
			}
		}
	}
	for _, wrong := range []struct{ members, owners string }{
		{"c1 c2", "c1 c2 c1"}, {"c1 c2", "c1 c1 c1 c2"}, {"c1 c2", "c1 c1 c3"}, {"c1 c2 c3", "c1 c1"}, {"c1 c2", "c2 c1"},
	} {
		owners := strings.Fields(wrong.owners)
		if faults(strings.Fields(wrong.members), len(owners), owners) == "" {
			t.Errorf("no fault in %v", wrong)
		}
	}
}

// faults says what is wrong with an assignment.
func faults(members []string, partitions int, owners []string) string {
	if len(owners) != partitions {
		return "not one owner for each partition"
	}
	if len(members) == 0 {
		return ""
	}
	if !slices.IsSorted(owners) {
		return "not in the order of the names, or a member's run is interrupted"
	}
	most, least, idle := 0, partitions, 0
	for _, m := range members {
		n := len(Owned(owners, m))
		most, least = max(most, n), min(least, n)
		if n == 0 {
			idle++
		}
	}
	for _, o := range owners {
		if !slices.Contains(members, o) {
			return o + " is no member"
		}
	}
	if most-least > 1 {
		return "one has two more than another"
	}
	if want := max(0, len(members)-partitions); idle != want || len(Idle(members, owners)) != want {
		return fmt.Sprintf("%d are idle, not %d", idle, want)
	}
	return ""
}

// The hash is the same for ever: what is in a log would be looked for elsewhere.
func TestLog_Partition(t *testing.T) {
	t.Parallel()
	for pass, want := range map[string][3]int{ // of 4, of 5, of 1
		"pass-0": {3, 3, 0}, "pass-1": {1, 3, 0}, "pass-2": {0, 1, 0}, "pass-3": {0, 2, 0},
		"": {0, 2, 0}, "ü": {0, 3, 0},
	} {
		got := [3]int{Log{Partitions: 4}.Partition(pass), Log{Partitions: 5}.Partition(pass), Log{Partitions: 1}.Partition(pass)}
		if got != want {
			t.Errorf("%q: got %v, want %v", pass, got, want)
		}
	}
	const passes, partitions = 10_000, 4
	var n [partitions]int
	for i := range passes {
		n[Log{Partitions: partitions}.Partition(fmt.Sprint("pass-", i))]++
	}
	for p, got := range n {
		if want := passes / partitions; got < want*9/10 || got > want*11/10 {
			t.Errorf("partition %d has %d of %d passes", p, got, passes)
		}
	}
}

func TestLog_names(t *testing.T) {
	t.Parallel()
	same(t, "in a namespace", Log{"k7f3", 2}.Queues(), []string{"k7f3.passes.0", "k7f3.passes.1"})
	same(t, "in none", Log{Partitions: 1}.Queues(), []string{"passes.0"})
}
