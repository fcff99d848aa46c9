package lab

import (
	"slices"
	"strings"
	"testing"
)

func TestParseArming(t *testing.T) {
	t.Parallel()
	points := []Point{"after-read", "before-commit", "after-commit"}
	for text, want := range map[string]Arming{
		"after-read": {Point: "after-read"}, "before-commit,stop": {Point: "before-commit", Stop: true},
		"after-commit,stop,always": {Point: "after-commit", Stop: true, Always: true},
	} {
		if got, err := ParseArming(text, points); err != nil || got != want || got.String() != text {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, says := range map[string]string{
		"":                   `no crash point "": there are after-read, before-commit, after-commit`,
		"before-ack":         `no crash point "before-ack"`,
		"before-commit,":     `"" is neither stop nor always`,
		"before-commit,halt": `"halt" is neither`,
	} {
		if got, err := ParseArming(text, points); err == nil || got != (Arming{}) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %+v, %v, want %s", text, got, err, says)
		}
	}
}

func TestTrap_Fires(t *testing.T) {
	t.Parallel()
	c, n := dial(t)
	marks := NewMarks(c, place(t, c))
	const here, elsewhere = "before-ack", "after-ack"
	for _, tc := range []struct {
		name  string
		trap  Trap
		at    Point
		fires []bool // each time that it comes by
		notes int
	}{
		{"once", Trap{Arming{Point: here}, marks, "n-1", "push"}, here, []bool{true, false, false}, 0},
		{"once for each who handles it", Trap{Arming{Point: here}, marks, "n-1", "email"}, here, []bool{true, false}, 0},
		{"once for each message", Trap{Arming{Point: here}, marks, "n-7", "push"}, here, []bool{true, false}, 0},
		{"always", Trap{Arming{Point: here, Always: true}, marks, "n-2", "push"}, here, []bool{true, true}, 0},
		{"always, without marks", Trap{Arming{Point: here, Always: true}, nil, "n-2", "push"}, here, []bool{true, true}, 0},
		{"another point", Trap{Arming{Point: here}, marks, "n-3", "push"}, elsewhere, []bool{false}, 0},
		{"nothing armed", Trap{Marks: marks, ID: "n-4", Who: "push"}, here, []bool{false}, 0},
		{"without marks", Trap{Arming{Point: here}, nil, "n-5", "push"}, here, []bool{false, false}, 2},
	} {
		var got []bool
		var notes []string
		for range tc.fires {
			got = append(got, tc.trap.Fires(tc.at, func(text string) { notes = append(notes, text) }))
		}
		if !slices.Equal(got, tc.fires) || len(notes) != tc.notes {
			t.Errorf("%s: %v, want %v; notes %q", tc.name, got, tc.fires, notes)
		}
	}
	// A point whose mark may or may not be written does not fire, and says so.
	n.losing("set", 2)
	said := ""
	if (Trap{Arming{Point: here}, marks, "n-6", "push"}).Fires(here, func(text string) { said = text }) || !strings.Contains(said, "before-ack does not fire") {
		t.Errorf("it fired, or said %q", said)
	}
}
