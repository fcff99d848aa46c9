package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/fatih/color"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/scenario"
)

// The text around a scenario's events: its header, what was checked, how it ended,
// and the list of all.

func (r *runner) header(out *printer, s scenario.Scenario, cfg scenario.Config, at versions) {
	number := ""
	if s.Lesson > 0 {
		number = fmt.Sprintf(", lesson %d of %d", s.Lesson, scenario.Lessons())
	}
	settings := settingsText(&cfg.Settings) + ", "
	if s.Chapter != "" {
		number = ", " + s.Chapter
	}
	if s.Unset {
		settings = ""
	}
	out.linef("%s%s: %s", s.Name, number, s.Title)
	if at != (versions{}) { // else there are no servers
		out.linef("RabbitMQ %s, Redis %s, %snamespace %s", escape(at.rabbitmq), escape(at.redis), settings, cfg.Namespace)
	}
	out.linef("")
}

// verdict prints what was checked and how it ended.
func (r *runner) verdict(out *printer, s scenario.Scenario, v scenario.Verdict) {
	p := out.palette
	if len(v.Findings) > 0 && v.Status != scenario.Inconclusive { // whose one finding is the text below
		out.linef("")
		table(out, v.Findings)
	}
	out.linef("")
	words, c, text := ending(p, v)
	out.linef("%s  %s", c.Sprint(words), text)
	switch v.Status {
	case scenario.Held:
		if s.Next != "" {
			out.linef("next: notifylab scenario %s", s.Next)
		}
	case scenario.NotHeld:
		r.history(out, v)
		out.linef("again: notifylab scenario %s%s --seed %d -v", s.Name, r.flags.given(s), v.Seed)
	case scenario.Inconclusive:
		if v.Last != "" {
			out.linef("last: %s", escape(v.Last))
		}
		out.linef("try: notifylab scenario %s -v", s.Name)
	}
	if r.flags.keeps(s) {
		out.linef("kept: queues %s.*, keys %s:*; look around with --namespace %s", v.Namespace, v.Namespace, v.Namespace)
	}
}

// ending returns the words with which a scenario ends.
func ending(p palette, v scenario.Verdict) (words string, c *color.Color, text string) {
	switch {
	case v.Status == scenario.Inconclusive:
		return "INCONCLUSIVE", p.yellow, escape(v.Why)
	case v.Status == scenario.NotHeld && v.Outcome == v.Want:
		return "NOT HELD", p.red, fmt.Sprintf("%s, as predicted, but not all that was checked is ok", v.Outcome)
	case v.Status == scenario.NotHeld:
		return "NOT HELD", p.red, fmt.Sprintf("%s, want %s", v.Outcome, v.Want)
	case v.Bug:
		return "BUG REPRODUCED", p.green, fmt.Sprintf("%s: %s. As predicted.", v.Outcome, v.Why)
	case v.Fixed:
		return "FIXED", p.green, fmt.Sprintf("%s: %s. As predicted.", v.Outcome, v.Why)
	}
	return "HELD", p.green, fmt.Sprintf("%s: %s.", v.Outcome, v.Why)
}

// table prints findings in columns, no wider than a page.
func table(out *printer, findings []scenario.Finding) {
	const indent, gap, ends = "  ", "   ", len("NOT OK")
	rows := [][]string{{"checked", "want", "got"}}
	for _, f := range findings {
		rows = append(rows, []string{escape(f.What), escape(f.Want), escape(f.Got)})
	}
	for i, lines := range layOut(rows, gap, pageWidth-len(indent)-len(gap)-ends) {
		for n, line := range lines {
			switch {
			case i == 0 || n > 0:
			case findings[i-1].OK:
				line += gap + out.palette.green.Sprint("ok")
			default:
				line += gap + out.palette.red.Sprint("NOT OK")
			}
			out.linef("%s", strings.TrimRight(indent+line, " "))
		}
	}
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// history prints the lines of the notification that came out otherwise.
func (r *runner) history(out *printer, v scenario.Verdict) {
	if v.Victim == "" {
		return
	}
	out.linef("the lines of notif:%s:", escape(v.Victim))
	again := &printer{w: out.w, palette: out.palette, ns: out.ns, closed: out.closed, verbose: true, relative: true}
	for _, e := range v.Events {
		if e.ID == v.Victim {
			again.event(e)
		}
	}
}

// account prints what was not as predicted, and how it came about.
func (r *runner) account(out *printer, v scenario.Verdict) {
	for _, f := range v.Findings {
		if !f.OK {
			out.linef("%s: want %s, got %s", escape(f.What), escape(f.Want), escape(f.Got))
		}
	}
	r.history(out, v)
}

// summary prints the ends of many runs, and last what was not as predicted.
func (r *runner) summary() {
	out := r.printer(r.cancel)
	held, width := 0, 0
	for _, e := range r.ends {
		width = max(width, len(e.name))
	}
	out.linef("")
	for _, e := range r.ends {
		words, c, _ := ending(out.palette, e.verdict)
		if e.verdict.Status == scenario.Held {
			held++
		}
		out.linef("  %-*s  %-8s  %s  %.1fs", width, e.name, e.verdict.Outcome, c.Sprint(pad(words, len("BUG REPRODUCED"))), float64(e.verdict.ElapsedMS)/1000)
	}
	out.linef("%d of %d as predicted", held, len(r.ends))
	if !r.agree() {
		out.linef("the repetitions do not agree")
	}
	for _, e := range r.ends {
		if e.verdict.Status == scenario.Held {
			continue
		}
		words, c, text := ending(out.palette, e.verdict)
		out.linef("\n%s: %s  %s", e.name, c.Sprint(words), text)
		out.ns = notify.Namespace(e.verdict.Namespace)
		r.account(out, e.verdict)
	}
}

// byCurl is the same by the api, as the lessons have it.
func byCurl(s scenario.Scenario) string {
	const header = "-H 'Content-Type: application/json'"
	text := ""
	if !s.Any {
		text = fmt.Sprintf("  curl -s -X PUT localhost:3100/api/lab/flags %s -d '{\"idempotency\":%t,\"claimLease\":%t}'\n",
			header, s.Settings.Idempotency, s.Settings.ClaimLease)
	}
	return text + fmt.Sprintf("  curl -s -X POST localhost:3100/api/notify %s -d '{\"mode\":%q}'\n", header, s.Mode)
}

// lesson is a scenario's --help.
func lesson(s scenario.Scenario) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n\n", s.Title, s.Help)
	switch {
	case s.Unset:
	case s.Any && s.Settings == (event.Settings{}):
		b.WriteString("Settings: any; by default all off.\n")
	case s.Any:
		fmt.Fprintf(&b, "Settings: any; by default %s.\n", settingsText(&s.Settings))
	default:
		fmt.Fprintf(&b, "Settings: %s.\n", settingsText(&s.Settings))
	}
	fmt.Fprintf(&b, "Outcome:  %s.\n", s.Outcome)
	if s.Harms {
		b.WriteString("Servers:  a RabbitMQ and a Redis of its own, made of the installed programs.\n")
	}
	if s.ByHand != "" {
		fmt.Fprintf(&b, "\nBy hand\n%s\n", s.ByHand)
	}
	if s.Mode != "" {
		fmt.Fprintf(&b, "\nBy curl (while notifylab api and notifylab supervise run)\n%s", byCurl(s))
	}
	if s.Next != "" {
		fmt.Fprintf(&b, "\nNext: notifylab scenario %s", s.Next)
	}
	return strings.TrimRight(b.String(), "\n")
}
