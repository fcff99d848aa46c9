package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"notifylab/internal/event"
	"notifylab/internal/scenario"
)

func TestMatrix_exit_status(t *testing.T) {
	t.Parallel()
	shared := newCorner(t)
	for args, tt := range map[string]struct {
		status, cells int
		last          string // the beginning of the line that judges
		has           []string
	}{
		"--only record/after-claim/kill --only none/before-ack/kill": {0, 2, "HELD  2 of 2 as predicted",
			[]string{"none       kill   –        2", "record     kill   0 lost", "open with record     lost at after-claim", "open with none       twice at before-ack"}},
		"--only key/mid-send/kill --repeat 2":                        {0, 2, "HELD  2 of 2 as predicted", []string{"round 2 of 2", "all closed with key"}},
		"--only none/mid-send/kill -v":                               {0, 1, "HELD  1 of 1 as predicted", []string{"2 *", "in 1 cell the workers' SENT lines", "CRASH — worker dying DURING send", "none/mid-send/kill, namespace "}},
		"--only lease/after-copy/kill":                               {0, 1, "HELD  1 of 1 as predicted", []string{"parked"}},
		"--only record/mid-send/kill --timeout 1ms":                  {75, 1, "INCONCLUSIVE  0 of 1 as predicted", []string{"INCONCLUSIVE  record/mid-send/kill: ", "try: notifylab matrix --only record/mid-send/kill -v", "?"}},
		"--only none/after-ack/kill --concurrency 300":               {0, 1, "HELD  1 of 1 as predicted", []string{"299 others beside it in the worker's hand"}},
		"--only none/after-ack/kill --concurrency 300 --timeout 1ms": {75, 1, "INCONCLUSIVE  0 of 1 as predicted", []string{"try: notifylab matrix --only none/after-ack/kill -v --concurrency 300"}},
		"--break confirm":                                            {1, 1, "RED AS NAMED  0 of 1 as predicted", []string{"without confirm: ", "0 lost≠parked"}},
		"--break nx --only record/before-ack/kill":                   {1, 1, "RED AS NAMED  0 of 1 as predicted", []string{"2≠1"}},
		"--break nx --only record/mid-send/kill --repeat 2":          {1, 2, "RED AS NAMED  0 of 2 as predicted", nil},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			c := cornerAt(t, shared.amqp, shared.redis).raced()
			r := c.run(append([]string{"matrix"}, strings.Fields(args)...)...)
			r.wantStatus(tt.status)
			lines := r.lines()
			if last := r.lastLine(); !strings.HasPrefix(last, tt.last) || r.errorText() != "" {
				t.Errorf("no %s\n%s", tt.last, r.all())
			}
			for _, part := range tt.has {
				if len(having(lines, part)) == 0 {
					t.Errorf("no %s\n%s", part, r.text())
				}
			}
			c.wantClean(lines)

			report := filepath.Join(c.dir, "report.xml")
			r = c.run(append([]string{"matrix", "-o", "json", "--junit", report}, strings.Fields(args)...)...)
			r.wantStatus(tt.status)
			wantCells(t, r, tt.cells, tt.status)
			if text, err := os.ReadFile(report); err != nil || strings.Count(string(text), "<testcase ") != tt.cells || !strings.Contains(string(text), `<testsuite name="matrix"`) {
				t.Errorf("%v: %s", err, text)
			}
			c.wantClean(nil)
		})
	}
}

// What a process may open is looked at before anything is played.
func TestMatrix_without_enough_files(t *testing.T) {
	t.Parallel()
	c := cornerAt(t, "", "")
	for may, fewer := range map[string]string{"1023": "255", "300": "1"} {
		args := "matrix --only none/before-ack/kill --concurrency 256"
		r := c.launch(exec.Command("sh", "-c", "ulimit -n "+may+` && exec "$0" `+args, binary(t)))
		r.wantStatus(exitUnavailable)
		want := "notifylab: --concurrency 256 needs 1024 open files at once, and this process may have " + may + "\n" +
			"  fewer in hand     --concurrency " + fewer + ", or some cells alone, by --only\n" +
			"  or allow it more  ulimit -n 1024, where the hard limit is no lower (ulimit -Hn)"
		if r.errorText() != want || r.text() != "" {
			t.Errorf("%s\nwant %s", r.all(), want)
		}
	}
}

// wantCells reads JSON: an object for each cell, then a verdict, and nothing else.
func wantCells(t *testing.T, r *running, cells, status int) {
	t.Helper()
	lines := r.lines()
	if len(lines) != cells+1 || r.errorText() != "" {
		t.Fatalf("%d lines\n%s", len(lines), r.all())
	}
	for _, line := range lines[:cells] {
		var cell struct {
			Kind, Setting, Point, Fault, Want string
			Accepted                          *int
			OK                                *bool
		}
		err := json.Unmarshal([]byte(line), &cell)
		name := cell.Setting + "/" + cell.Point + "/" + cell.Fault
		c, missing := scenario.FindCell(name)
		if err != nil || missing != nil || cell.Kind != "cell" || cell.Accepted == nil || cell.OK == nil || *cell.OK != (status == 0) || cell.Want != c.Want.String() {
			t.Errorf("%v, %v: %s", err, missing, line)
		}
	}
	var verdict struct {
		Kind, Scenario, Status, RabbitMQ, Redis string
		Findings                                []struct{ OK bool }
		Outcomes                                []any
	}
	want := map[int]string{0: "held", 1: "not_held", 75: "inconclusive"}[status]
	if err := json.Unmarshal([]byte(lines[cells]), &verdict); err != nil || verdict.Kind != "verdict" || verdict.Scenario != "matrix" ||
		verdict.Status != want || len(verdict.Findings) != cells || verdict.Outcomes == nil || verdict.RabbitMQ == "" || verdict.Redis == "" {
		t.Errorf("%v: %s", err, lines[cells])
	}
}

// results are what the cells are predicted to come to.
func results(t *testing.T, cells ...scenario.Cell) []scenario.Result {
	t.Helper()
	var all []scenario.Result
	for _, c := range cells {
		v := scenario.Verdict{Status: scenario.Held, Accepted: c.Want.Accepted, Outcome: c.Want.Outcome, Want: c.Want.Outcome, Victim: "k7f3-1"}
		for range c.Want.Accepted {
			v.Events = append(v.Events, event.Event{Kind: event.Sent, Source: "push-worker-1", ID: "k7f3-1"})
		}
		all = append(all, scenario.Result{Cell: c, Verdict: v})
	}
	return all
}

func cellsOf(t *testing.T, names ...string) []scenario.Cell {
	t.Helper()
	var cells []scenario.Cell
	for _, name := range names {
		c, err := scenario.FindCell(name)
		if err != nil {
			t.Fatal(err)
		}
		cells = append(cells, c)
	}
	return cells
}

// What a run comes to: a missing guard that nothing has noticed outweighs all, and
// what did not hold outweighs what is inconclusive.
func TestMatrix_end(t *testing.T) {
	t.Parallel()
	held := results(t, cellsOf(t, "record/mid-send/kill")...)[0]
	red, open := held, held
	red.Status, red.Accepted = scenario.NotHeld, 2
	open.Status = scenario.Inconclusive
	nx := scenario.Guards()[0]
	for name, tt := range map[string]struct {
		without scenario.Guard
		all     []scenario.Result
		status  int
		ends    string
	}{
		"held":                  {scenario.Guard{}, []scenario.Result{held, held}, 0, "HELD  2 of 2"},
		"not held":              {scenario.Guard{}, []scenario.Result{held, open, red}, 1, "NOT HELD  1 of 3"},
		"inconclusive":          {scenario.Guard{}, []scenario.Result{open, held}, 75, "INCONCLUSIVE  1 of 2"},
		"red as named":          {nx, []scenario.Result{red, red}, 1, "RED AS NAMED  0 of 2"},
		"unseen":                {nx, []scenario.Result{red, held}, 70, "UNSEEN  1 of 2"},
		"unseen, or nobody can": {nx, []scenario.Result{open, held}, 70, "UNSEEN  1 of 2"},
		"nobody can say":        {nx, []scenario.Result{open, open}, 75, "INCONCLUSIVE  0 of 2"},
	} {
		m := &matrix{cells: []scenario.Cell{held.Cell}, repeat: 1, without: tt.without}
		v := scenario.MatrixVerdict(tt.all, tt.without, 1500)
		err := m.end(tt.all, v)
		if got := exitStatus(err); got != tt.status {
			t.Errorf("%s: status %d, want %d", name, got, tt.status)
		}
		var status statusError
		if text := "record/mid-send/kill"; tt.status == exitBug && (!errors.As(err, &status) || !strings.Contains(status.text, text)) {
			t.Errorf("%s: %v does not name %s", name, err, text)
		}
		var b bytes.Buffer
		out := &printer{w: event.NewWriter(&b), palette: newPalette(false)}
		m.ending(out, &runner{app: &app{}}, tt.all, v)
		if !strings.Contains(b.String(), "\n"+tt.ends+" as predicted, 1.5s\n") && !strings.HasPrefix(b.String(), tt.ends) {
			t.Errorf("%s: no %s in\n%s", name, tt.ends, b.String())
		}
	}
}

// TestMatrix_beside: of others that did not come to what was predicted a few are named.
func TestMatrix_beside(t *testing.T) {
	t.Parallel()
	r := results(t, cellsOf(t, "lease/after-ack/kill")...)[0]
	r.Status, r.Findings = scenario.NotHeld, []scenario.Finding{
		{What: "redelivered", IDs: []string{"b1", "b2", "b3", "b4", "b5", "b6", "b7"}},
		{What: "worker lines", IDs: []string{"k7f3-1"}},
		{What: "ledger", IDs: []string{"b1"}, OK: true},
	}
	m := &matrix{repeat: 1, inHand: 256}
	var b bytes.Buffer
	m.otherwise(&printer{w: event.NewWriter(&b), palette: newPalette(false)}, &runner{app: &app{}}, r)
	const begin = "NOT HELD  lease/after-ack/kill: 1, as predicted, but not all that was checked is ok\nredelivered: b1, b2, b3, b4, b5 and 2 more\nlease/after-ack/kill, namespace "
	if !strings.HasPrefix(b.String(), begin) || !strings.Contains(b.String(), "again: notifylab matrix --only lease/after-ack/kill -v --concurrency 256\n") {
		t.Error(b.String())
	}
}

func TestMatrix_colour(t *testing.T) {
	t.Parallel()
	p := newPalette(true)
	all := results(t, cellsOf(t, "record/after-receive/kill", "record/after-claim/kill", "record/after-claim/stop", "lease/mid-send/kill", "lease/before-copy/kill", "none/before-ack/stop")...)
	not := all[0]
	not.Status, not.Accepted, not.Outcome = scenario.NotHeld, 2, scenario.Twice
	beside := all[3] // something of others is not as predicted
	beside.Status = scenario.NotHeld
	for i, want := range []string{"green 1", "yellow 0 lost", "yellow 1 late", "yellow 2", "green parked", "yellow 2", "red 2≠1 *", "red 2 (!)"} {
		text, c := cell(p, append(all, not, beside)[i])
		for name, other := range map[string]any{"green": p.green, "yellow": p.yellow, "red": p.red} {
			if other == any(c) && name+" "+text != want {
				t.Errorf("%s %s, want %s", name, text, want)
			}
		}
	}
}

// The README's table is what is predicted, which the CI holds against what comes
// out; but for the stars, of which some are chance, and the cell that is.
func TestREADME_matrix_is_what_is_predicted(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)<!-- output: notifylab matrix -->\n```text\n(.*?)```").FindStringSubmatch(string(text))
	if shown == nil {
		t.Fatal("the README shows no output of the matrix")
	}
	var b bytes.Buffer
	out := &printer{w: event.NewWriter(&b), palette: newPalette(false)}
	all := results(t, scenario.Cells()...)
	printMatrix(out, all)
	windows(out, all)
	// What differs from run to run.
	plain := func(text string) string {
		var lines []string
		for line := range strings.Lines(strings.ReplaceAll(timeless(text), " *", "")) {
			switch {
			case strings.HasPrefix(line, "matrix: "), strings.HasPrefix(line, "RabbitMQ"), strings.HasPrefix(line, "* in "), strings.HasPrefix(line, "HELD "):
				continue
			case strings.HasPrefix(line, "open with ack-early"), strings.HasPrefix(line, "ack-early stop"):
				line = regexp.MustCompile(`late [12] 1|; twice at mid-send`).ReplaceAllString(line, "")
			}
			lines = append(lines, strings.TrimSpace(line))
		}
		return strings.TrimSpace(strings.Join(lines, "\n"))
	}
	if got, want := plain(shown[1]), plain(b.String()); got != want {
		t.Errorf("the README shows:\n%s\npredicted:\n%s", got, want)
	}
}
