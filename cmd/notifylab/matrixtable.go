package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fatih/color"

	"notifylab/internal/notify"
	"notifylab/internal/scenario"
	"notifylab/internal/worker"
)

// The text of a run of the matrix.

func (m *matrix) header(out *printer, v versions) {
	out.linef("matrix: how often the provider accepted one message, by what was done to its worker")
	out.linef("RabbitMQ %s, Redis %s, %s, up to %d at once", escape(v.rabbitmq), escape(v.redis), count(len(m.cells), "cell"), scenario.AtOnce)
	if m.inHand > 1 {
		out.linef("%s beside it in the worker's hand, each accepted and not answered", count(m.inHand-1, "other"))
	}
	if m.without.Name != "" {
		out.linef("without %s: %s. These cells must turn red", m.without.Name, m.without.Is)
	}
	out.linef("")
}

// A block is a part of the matrix with columns of its own.
type block struct {
	title string
	has   func(scenario.Cell) bool
}

func blocks() []block {
	aroundCopy := func(c scenario.Cell) bool {
		return c.Point == worker.BeforeCopy || c.Point == worker.AfterCopy
	}
	twins := func(c scenario.Cell) bool { return c.Fault == scenario.Twins }
	return []block{
		{"", func(c scenario.Cell) bool { return !aroundCopy(c) && !twins(c) }},
		{"refused each time, so that copies are made", aroundCopy},
		{"two copies of one message", twins},
	}
}

// A spot is where there is a cell.
type spot struct {
	played bool
	scenario.Result
}

// printMatrix prints results as tables: a row for each setting and fault, a column
// for each crash point that there is.
func printMatrix(out *printer, results []scenario.Result) {
	for _, b := range blocks() {
		var rows []string // in the order of all cells
		var columns []worker.Point
		cells := map[string]spot{}
		for _, c := range scenario.Cells() {
			row := fmt.Sprintf("%-9s  %s", c.Setting.Name, c.Fault)
			cells[row+string(c.Point)] = spot{}
			i := slices.IndexFunc(results, func(r scenario.Result) bool { return r.Cell.String() == c.String() })
			if i < 0 || !b.has(c) {
				continue
			}
			if !slices.Contains(rows, row) {
				rows = append(rows, row)
			}
			if !slices.Contains(columns, c.Point) {
				columns = append(columns, c.Point)
			}
			cells[row+string(c.Point)] = spot{played: true, Result: results[i]}
		}
		if len(rows) > 0 {
			b.print(out, rows, inOrder(columns), cells)
		}
	}
}

func inOrder(points []worker.Point) []worker.Point {
	return slices.DeleteFunc(worker.Points(), func(p worker.Point) bool { return !slices.Contains(points, p) })
}

func (b block) print(out *printer, rows []string, columns []worker.Point, cells map[string]spot) {
	if b.title != "" {
		out.linef("  %s", b.title)
	}
	const label, width = 16, 8
	upper, lower := "", ""
	for _, p := range columns { // a name is too long for one line
		before, after, _ := strings.Cut(string(p), "-")
		upper, lower = upper+pad(before+"-", width)+" ", lower+pad(after, width)+" "
	}
	for _, line := range []string{upper, lower} {
		out.linef("  %s  %s", pad("", label), strings.TrimRight(line, " "))
	}
	for _, row := range rows {
		line, blank := "", ""
		for _, p := range columns {
			text, c := "–", out.palette.dim
			if at, ok := cells[row+string(p)]; ok && at.played {
				text, c = cell(out.palette, at.Result)
			} else if ok {
				text = ""
			}
			line += blank
			if text != "" { // else a colour would be switched on and off around nothing
				line += c.Sprint(text)
			}
			blank = strings.Repeat(" ", max(1, width+1-utf8.RuneCountInString(text)))
		}
		out.linef("  %s  %s", pad(row, label), strings.TrimRight(line, " "))
	}
	out.linef("")
}

// cell is a result as the table has it.
func cell(p palette, r scenario.Result) (text string, c *color.Color) {
	want := r.Cell.Want
	text, c = r.Got(), p.yellow
	switch {
	case r.Status == scenario.NotHeld && !r.Red():
		text, c = text+" (!)", p.red
	case r.Status == scenario.NotHeld:
		text, c = text+"≠"+want.String(), p.red
	case r.Status == scenario.Held && !want.Late && (r.Outcome == scenario.Once || r.Outcome == scenario.Parked):
		c = p.green
	}
	if !r.Agree() {
		text += " *"
	}
	return text, c
}

// ending prints what the tables come to, and the story of each cell that came out
// otherwise.
func (m *matrix) ending(out *printer, r *runner, all []scenario.Result, v scenario.Verdict) {
	held, liars := 0, 0
	for _, res := range all {
		if res.Status == scenario.Held {
			held++
		}
		if !res.Agree() {
			liars++
		}
		m.otherwise(out, r, res)
	}
	if m.without.Name == "" {
		windows(out, all)
	}
	if liars > 0 {
		out.linef("* in %s the workers' SENT lines and the ledger disagree: that is why logs can't judge", count(liars, "cell"))
	}
	words, c := "HELD", out.palette.green
	switch {
	case len(m.without.Unseen(all)) > 0:
		words, c = "UNSEEN", out.palette.red
	case v.Status == scenario.NotHeld && m.without.Name != "":
		words, c = "RED AS NAMED", out.palette.green
	case v.Status == scenario.NotHeld:
		words, c = "NOT HELD", out.palette.red
	case v.Status == scenario.Inconclusive:
		words, c = "INCONCLUSIVE", out.palette.yellow
	}
	out.linef("%s  %d of %d as predicted, %.1fs", c.Sprint(words), held, len(all), float64(v.ElapsedMS)/1000)
}

// otherwise says why a cell did not come out as predicted, unless it had to.
func (m *matrix) otherwise(out *printer, r *runner, res scenario.Result) {
	again := "notifylab matrix --only " + res.Cell.String() + " -v"
	if m.inHand > 1 {
		again += " --concurrency " + strconv.Itoa(m.inHand)
	}
	switch {
	case res.Status == scenario.Inconclusive:
		out.linef("%s  %s: %s", out.palette.yellow.Sprint("INCONCLUSIVE"), res.Cell, escape(res.Why))
		if res.Last != "" {
			out.linef("last: %s", escape(res.Last))
		}
		out.linef("try: %s", again)
	case res.Status == scenario.NotHeld && m.without.Name == "":
		wrong := "want " + res.Cell.Want.String()
		if !res.Red() {
			wrong = "as predicted, but not all that was checked is ok"
		}
		out.linef("%s  %s: %s, %s", out.palette.red.Sprint("NOT HELD"), res.Cell, res.Got(), wrong)
		for _, f := range res.Findings {
			if others := slices.DeleteFunc(slices.Clone(f.IDs), func(id string) bool { return id == res.Victim }); !f.OK && len(others) > 0 {
				out.linef("%s: %s", f.What, escape(firstOf(others, 5)))
			}
		}
		if !r.verbose {
			r.story(out, res)
		}
		out.linef("again: %s", again)
	}
	if m.without.Name == "" {
		r.annotate(out, m.judgedCell(r, res))
	}
}

// firstOf lists the first n of some words, and says how many there are more.
func firstOf(all []string, n int) string {
	if len(all) <= n {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:n], ", "), len(all)-n)
}

// story prints a cell's events and what was checked.
func (r *runner) story(out *printer, res scenario.Result) {
	again := &printer{w: out.w, palette: out.palette, ns: notify.Namespace(res.Namespace), closed: out.closed, relative: true}
	out.linef("%s, namespace %s", res.Cell, escape(res.Namespace))
	for _, e := range res.Events {
		e.Detail = e.Detail && e.ID != res.Victim
		again.event(e)
	}
	out.linef("")
	table(out, res.Findings)
	out.linef("")
}

// windows says in words what the table says in numbers: where a notification is
// lost or sent twice, as predicted, and under which settings it never is.
func windows(out *printer, all []scenario.Result) {
	var closed []string
	for _, s := range scenario.NamedSettings() {
		open, played := map[string][]string{}, false
		for _, r := range all {
			if r.Setting.Name != s.Name || r.Status != scenario.Held {
				continue
			}
			played = true
			what := string(r.Outcome)
			if r.Cell.Want.Late {
				what = "late"
			}
			if at := string(r.Point); !slices.Contains(open[what], at) {
				open[what] = append(open[what], at)
			}
		}
		var parts []string
		for _, what := range []string{"lost", "late", "twice"} {
			if at := open[what]; len(at) > 0 {
				slices.SortFunc(at, byPlace)
				parts = append(parts, what+" at "+strings.Join(at, ", "))
			}
		}
		if len(parts) > 0 {
			out.linef("open with %-9s  %s", s.Name, strings.Join(parts, "; "))
		} else if played {
			closed = append(closed, s.Name)
		}
	}
	if len(closed) > 0 {
		out.linef("all closed with %s", strings.Join(closed, ", "))
	}
}

func byPlace(a, b string) int {
	return slices.Index(worker.Points(), worker.Point(a)) - slices.Index(worker.Points(), worker.Point(b))
}
