package main

import (
	"fmt"
	"os"
	"strings"

	"notifylab/internal/scenario"
)

// Under GitHub Actions text has workflow commands: a group that folds for each of
// many runs, and an annotation for each that did not hold.
// https://docs.github.com/actions/reference/workflow-commands-for-github-actions

// inActions says whether these commands are understood. In JSON there are none.
func (a *app) inActions() bool { return a.output != "json" && os.Getenv("GITHUB_ACTIONS") == "true" }

// group begins a group and returns what ends it.
func (a *app) group(out *printer, name string) (end func()) {
	if !a.inActions() {
		return func() {}
	}
	out.linef("::group::%s", actionsText(name))
	return func() { out.linef("::endgroup::") }
}

// annotate tells of what did not hold or is inconclusive.
func (a *app) annotate(out *printer, c judged) {
	command := ""
	switch {
	case !a.inActions():
	case c.status == scenario.NotHeld:
		command = "error"
	case c.status == scenario.Inconclusive:
		command = "warning"
	}
	if command == "" {
		return
	}
	title := actionsValue(fmt.Sprintf("%s %s", c.suite, c.name))
	text := strings.TrimRight(c.why+"\n"+c.details, "\n")
	out.linef("::%s title=%s::%s", command, title, actionsText(text))
}

// actionsText writes what would end a command's text in another way.
func actionsText(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

// actionsValue does so for the value of one of its properties.
func actionsValue(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(actionsText(s))
}
