package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"notifylab/internal/scenario"
)

// lastRun is how a scenario ended last, as the list shows it.
type lastRun struct {
	Status scenario.Status `json:"status"`
	At     time.Time       `json:"at"`
}

func (a *app) lastRunsFile() string { return filepath.Join(a.state(), "runs.json") }

func (a *app) lastRuns() map[string]lastRun {
	runs := map[string]lastRun{}
	b, err := os.ReadFile(a.lastRunsFile())
	if err != nil || json.Unmarshal(b, &runs) != nil {
		return map[string]lastRun{}
	}
	return runs
}

// remember keeps how a scenario ended. Of two that end at once one may be
// forgotten, never half a file be left.
func (a *app) remember(name string, v scenario.Verdict) error {
	runs := a.lastRuns()
	runs[name] = lastRun{v.Status, time.Now().UTC().Truncate(time.Second)}
	b, err := json.Marshal(runs)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(a.state(), 0o700); err != nil {
		return fmt.Errorf("remember the last run: %w", err)
	}
	f, err := os.CreateTemp(a.state(), "runs-*")
	if err != nil {
		return fmt.Errorf("remember the last run: %w", err)
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Close(), os.Rename(f.Name(), a.lastRunsFile()))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remember the last run: %w", err)
	}
	return nil
}

// list prints scenarios that were selected: the lessons with their numbers.
func (a *app) list(scenarios []scenario.Scenario, which selection) {
	out := a.printer(func(error) {})
	runs := a.lastRuns()
	if out.json {
		for _, s := range scenarios {
			o := map[string]any{
				"kind": "scenario", "name": s.Name, "lesson": s.Lesson, "title": s.Title,
				"shows": s.Shows, "outcome": s.Outcome, "chapter": s.Chapter, "tags": s.Tags,
			}
			if run, ok := runs[s.Name]; ok {
				o["last_status"], o["last_time"] = run.Status, run.At
			}
			out.object(o)
		}
		return
	}
	names, shows := 0, 0
	for _, s := range scenarios {
		names, shows = max(names, len(s.Name)), max(shows, utf8.RuneCountInString(s.Shows))
	}
	row := func(number, name, what, outcome, last string) {
		out.linef("%3s  %s  %s  %-8s  %s", number, pad(name, names), pad(what, shows), outcome, last)
	}
	row("", "scenario", "what it shows", "outcome", "last run")
	chapter := ""
	for _, s := range scenarios {
		if s.Chapter != chapter {
			chapter = s.Chapter
			out.linef("\n     %s", chapter)
		}
		number, last := "", "not started"
		if s.Lesson > 0 {
			number = strconv.Itoa(s.Lesson)
		}
		if run, ok := runs[s.Name]; ok {
			last = strings.ReplaceAll(string(run.Status), "_", " ") + ", " + ago(time.Since(run.At))
		}
		row(number, s.Name, s.Shows, string(s.Outcome), last)
	}
	example := scenarios[0].Name
	if slices.ContainsFunc(scenarios, func(s scenario.Scenario) bool { return s.Name == "crash-claim" }) {
		example = "crash-claim" // where a newcomer begins
	}
	out.linef("explain one: notifylab scenario %s --help          run all: notifylab scenario all%s", example, which.given())
}

func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}
