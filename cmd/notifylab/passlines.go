package main

import (
	"fmt"
	"strings"

	"github.com/fatih/color"

	"notifylab/internal/event"
)

// The text of what happens to passes, in a log and its groups: a record is P2@41, the
// partition and the offset.

// passLine is [palette.line] for those kinds.
func (p palette) passLine(e event.Event, about string) (c *color.Color, words, rest string, ok bool) {
	group, pass, reason := escape(e.Group), escape(e.Pass), escape(e.Reason)
	switch e.Kind {
	case event.Joined:
		return p.bold, "JOINED", fmt.Sprintf(" group %s, generation %d", group, e.Generation), true
	case event.Assigned:
		return p.bold, "ASSIGNED", fmt.Sprintf(" %s in group %s, generation %d", partitions(e.Assignment), group, e.Generation), true
	case event.Rebalanced:
		return p.yellow, "REBALANCED", fmt.Sprintf(" group %s, generation %d: %s", group, e.Generation, reason), true
	case event.Left:
		return p.dim, "LEFT", fmt.Sprintf(" group %s, generation %d", group, e.Generation), true
	case event.Read:
		return p.bold, "READ", about, true
	case event.Committed:
		return p.green, "COMMITTED", fmt.Sprintf("%s, group %s", about, group), true
	case event.CommitRefused:
		return p.red, "COMMIT REFUSED", fmt.Sprintf("%s, group %s: %s", about, group, reason), true
	case event.Fetched:
		return p.bold, "FETCHED", fmt.Sprintf(" pass:%s of user:%s", pass, escape(e.User)), true
	case event.Deleted:
		return p.green, "DELETED", fmt.Sprintf(" pass:%s%s", pass, about), true
	case event.AlreadyDeleted:
		return p.yellow, "ALREADY DELETED", fmt.Sprintf(" pass:%s%s (deleting it again changed nothing)", pass, about), true
	case event.Failed:
		return p.red, "FAILED", fmt.Sprintf(" pass:%s%s: %s, and %s behind it not done", pass, about, reason, count(e.Messages, "step")), true
	case event.Produced:
		text := fmt.Sprintf(" %s in %.3fs", count(e.Messages, "event"), float64(e.Elapsed)/1000)
		if reason != "" {
			text += ": " + reason
		}
		return p.bold, "PRODUCED", text, true
	}
	return nil, "", "", false
}

// partitions are a member's share: P0 P1, or that there is none.
func partitions(a *event.Assignment) string {
	if a == nil || len(a.Partitions) == 0 {
		return "nothing (idle)"
	}
	var words []string
	for _, p := range a.Partitions {
		words = append(words, fmt.Sprintf("P%d", p))
	}
	return strings.Join(words, " ")
}

// ready is where somebody is ready, and with what.
func ready(e event.Event, queue string) string {
	switch {
	case e.Group != "":
		return " in group " + escape(e.Group)
	case e.State != "":
		return fmt.Sprintf(" on %s (%s)", queue, escape(e.State))
	}
	return fmt.Sprintf(" on %s (%s)", queue, settingsText(e.Settings))
}
