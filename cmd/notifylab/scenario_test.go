package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"notifylab/internal/scenario"
)

func TestScenario_list(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	list := func() []string {
		r := c.run("scenario", "list")
		r.wantStatus(0)
		return r.lines()
	}
	before := list()
	want := []string{`^     scenario +what it shows +outcome   last run$`}
	chapter := ""
	for _, s := range scenario.Catalogue() {
		if s.Chapter != chapter {
			chapter = s.Chapter
			want = append(want, `^$`, "^     "+chapter+"$")
		}
		number := strings.TrimPrefix(fmt.Sprint(s.Lesson), "0")
		want = append(want, fmt.Sprintf(`^%3s  %s +%s +%s +not started$`, number, s.Name, regexp.QuoteMeta(s.Shows), s.Outcome))
	}
	want = append(want, `^explain one: notifylab scenario crash-claim --help          run all: notifylab scenario all$`)
	if len(before) != len(want) {
		t.Fatal(strings.Join(before, "\n"))
	}
	// Lines fit on a page with the longest that is said of a last run.
	longest := len("inconclusive, 59 min ago") - len("not started")
	for _, line := range before[:len(before)-1] {
		if n := utf8.RuneCountInString(line); n > pageWidth-longest {
			t.Errorf("%d wide, at most %d: %s", n, pageWidth-longest, line)
		}
	}
	column := strings.Index(before[0], "outcome")
	for i, w := range want {
		if !regexp.MustCompile(w).MatchString(before[i]) {
			t.Errorf("%q, want %s", before[i], w)
		}
		if row := []rune(before[i]); i > 0 && strings.HasSuffix(w, "not started$") && string(row[column-2:column]) != "  " {
			t.Errorf("%q is not in columns", before[i])
		}
	}
	c.run("scenario", "crash-claim").wantStatus(0)
	c.run("scenario", "crash").wantStatus(0)
	// These are other runs than the list speaks of.
	c.run("scenario", "crash", "--expect", "once").wantStatus(exitFinding)
	c.run("scenario", "idempotency", "--idempotency", "off").wantStatus(0)
	c.run("scenario", "claim-lease", "--timeout", "1ms").wantStatus(exitInconclusive)
	const lately = `, (just now|\d+ min ago)$`
	after := list()
	after = after[:len(after)-1] // which names one, too
	for name, want := range map[string]string{" crash-claim ": "held" + lately, "  crash  ": "held" + lately, " idempotency ": "not started$", " claim-lease ": "inconclusive" + lately} {
		if got := having(after, name); len(got) != 1 || !regexp.MustCompile("  "+want).MatchString(got[0]) {
			t.Errorf("no %s%s\n%s", name, want, strings.Join(after, "\n"))
		}
	}

	r := c.run("scenario", "list", "-o", "json")
	r.wantStatus(0)
	var names []string
	for _, line := range r.lines() {
		var o struct {
			Kind, Name, Title, Shows, Outcome string
			Lesson                            int
			Tags                              []string
			Chapter                           *string
			LastStatus                        string `json:"last_status"`
		}
		if err := json.Unmarshal([]byte(line), &o); err != nil || o.Kind != "scenario" || o.Title == "" || o.Shows == "" || o.Outcome == "" ||
			o.Chapter == nil || (o.Lesson > 0) != slices.Contains(o.Tags, "lesson") {
			t.Errorf("%v: %s", err, line)
		}
		if want := map[string]string{"crash-claim": "held", "crash": "held", "claim-lease": "inconclusive"}[o.Name]; o.LastStatus != want {
			t.Errorf("%s: last status %q, want %q", o.Name, o.LastStatus, want)
		}
		names = append(names, o.Name)
	}
	if len(names) != len(scenario.Catalogue()) {
		t.Errorf("%v", names)
	}
}

// Only those that are asked for are listed, and played.
func TestScenario_selection(t *testing.T) {
	t.Parallel()
	var tagged, lessons []string
	for _, s := range scenario.Catalogue() {
		if slices.Contains(s.Tags, "kill") && s.Name != "crash" || slices.Contains(s.Tags, "parked") {
			tagged = append(tagged, s.Name)
		}
		if s.Lesson > 0 && !slices.Contains(s.Tags, "kill") && s.Name != "fan-out" {
			lessons = append(lessons, s.Name)
		}
	}
	c := newCorner(t)
	for args, want := range map[string][]string{
		"list --tag kill --tag parked --skip crash":    tagged,
		"list --tag lesson --skip kill --skip fan-out": lessons,
		"all --tag lesson --skip kill --skip fan-out":  lessons,
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			c := cornerAt(t, c.amqp, c.redis)
			r := c.run(append([]string{"scenario", "-o", "json"}, strings.Fields(args)...)...)
			r.wantStatus(0)
			var got []string
			for _, o := range r.objects() {
				switch o["kind"] {
				case "scenario":
					got = append(got, o["name"].(string))
				case "verdict":
					got = append(got, o["scenario"].(string))
				}
			}
			if !slices.Equal(got, want) || len(want) == 0 {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

// The list ends with commands for what it lists.
func TestScenario_list_of_a_selection_ends_with_its_own_commands(t *testing.T) {
	t.Parallel()
	c := cornerAt(t, "", "").nowhere()
	for args, want := range map[string]string{
		"":                                   "explain one: notifylab scenario crash-claim --help          run all: notifylab scenario all",
		"--tag kill --skip crash":            "explain one: notifylab scenario crash-claim --help          run all: notifylab scenario all --tag kill --skip crash",
		"--tag log --tag slow --skip lesson": "explain one: notifylab scenario live-takeover --help          run all: notifylab scenario all --tag log --tag slow --skip lesson",
	} {
		r := c.run(append([]string{"scenario", "list"}, strings.Fields(args)...)...)
		r.wantStatus(0)
		if r.lastLine() != want {
			t.Errorf("%s: %q, want %q", args, r.lastLine(), want)
		}
	}
}

func TestScenario_exit_status(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	for args, tt := range map[string]struct {
		status int
		last   string // the beginning of the line that judges
	}{
		"crash-claim":                                  {0, "BUG REPRODUCED  lost: "},
		"claim-lease":                                  {0, "FIXED  once: "},
		"crash-claim --expect lost":                    {0, "BUG REPRODUCED  lost: "},
		"crash-claim --expect once":                    {1, "NOT HELD  lost, want once"},
		"claim-lease --claim-lease off":                {0, "BUG REPRODUCED  lost: "},
		"claim-lease --timeout 1ms":                    {75, "INCONCLUSIVE  "},
		"crash --repeat 2":                             {0, "BUG REPRODUCED  twice: "},
		"crash --repeat 2 --expect once":               {1, "NOT HELD  twice, want once"},
		"crash --idempotency on --expect once":         {0, "FIXED  once: "},
		"dead-letter --expect parked --idempotency on": {0, "HELD  parked: "},
		"two-cursors":                                  {0, "HELD  once: "},
		"commit-order":                                 {0, "BUG REPRODUCED  lost: "},
		"direct-call --spike 10":                       {0, "HELD  once: "},
		"partitions --timeout 1ms":                     {75, "INCONCLUSIVE  "},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			c := cornerAt(t, c.amqp, c.redis)
			r := c.run(append([]string{"scenario"}, strings.Fields(args)...)...)
			r.wantStatus(tt.status)
			if len(having(r.lines(), tt.last)) == 0 {
				t.Errorf("no %s\n%s", tt.last, r.all())
			}
			flags, _, _ := strings.Cut(strings.Replace(args, " --repeat 2", "", 1), " --timeout")
			if again := "again: notifylab scenario " + flags + " --seed "; tt.status == exitFinding && len(having(r.lines(), again)) == 0 {
				t.Errorf("no %s\n%s", again, r.all())
			}
			c.wantClean(r.lines())

			r = c.run(append([]string{"scenario", "-o", "json"}, strings.Fields(args)...)...)
			r.wantStatus(tt.status)
			var verdict struct {
				Kind, Status string
				Findings     []any
			}
			if err := json.Unmarshal([]byte(r.lastLine()), &verdict); err != nil || verdict.Kind != "verdict" ||
				verdict.Status != map[int]string{0: "held", 1: "not_held", 75: "inconclusive"}[tt.status] || verdict.Findings == nil {
				t.Errorf("%v: %s", err, r.lastLine())
			}
			for _, line := range r.lines() {
				if !json.Valid([]byte(line)) {
					t.Errorf("not JSON: %s", line)
				}
			}
		})
	}
}
