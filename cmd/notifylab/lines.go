package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/fatih/color"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// The text of events. Capital words are events and nothing else is in capitals,
// so that grep -E 'SENT|CRASH|DUPLICATE' finds just those; lines read
//
//	WORDS CHANNEL notif:<id> detail
//
// and the lessons' own wording decides where it differs. Text from outside is
// escaped here, and nowhere before.

// line returns the capital words of an event and what follows them, both ready to
// print, and their colour. ok is false for kinds that are not shown as text.
func (p palette) line(e event.Event, ns notify.Namespace) (c *color.Color, words, rest string, ok bool) {
	about := about(e)
	queue, key, user, reason := escape(ns.Bare(e.Queue)), escape(ns.Bare(e.Key)), escape(e.User), escape(e.Reason)
	ttl := time.Duration(e.TTLMS) * time.Millisecond
	switch e.Kind {
	case event.Queued:
		return p.bold, "QUEUED", fmt.Sprintf("%s for user:%s -> %s", about, user, queue) + confirmed(escape(e.State)), true
	case event.Returned:
		return p.red, "RETURNED", fmt.Sprintf("%s: no queue %s", about, queue), true
	case event.Unconfirmed:
		return p.yellow, "UNKNOWN", fmt.Sprintf("%s: published to %s, %s", about, queue, reason), true
	case event.Received:
		return p.bold, "RECEIVED", about + p.mark(e.Redelivered, " (redelivered)"), true
	case event.Claimed:
		return p.bold, "CLAIMED", fmt.Sprintf("%s (%s = %s, %s)", about, key, escape(e.State), event.Short(ttl)), true
	case event.ClaimRecovered:
		return p.yellow, "CLAIM RECOVERED", about + " (previous attempt claimed it but never finished)", true
	case event.DuplicateDropped:
		known := "already claimed for"
		if e.State == "done" {
			known = "already sent to"
		}
		return p.yellow, "DUPLICATE DROPPED", fmt.Sprintf("%s (%s user:%s)", about, known, user), true
	case event.Conflict:
		return p.red, "CONFLICT", about + ": same id, other text", true
	case event.LeaseBusy:
		return p.yellow, "LEASE BUSY", fmt.Sprintf("%s, %s has it for %.1fs", about, escape(e.Owner), ttl.Seconds()), true
	case event.LeaseLost:
		if reason == "" {
			reason = "not sending"
		}
		return p.yellow, "LEASE LOST", about + ", " + reason, true
	case event.Sent:
		return p.green, "SENT", fmt.Sprintf(`%s -> user:%s "%s"`, about, user, escape(e.Text)), true
	case event.Done:
		return p.green, "DONE", fmt.Sprintf("%s (pending -> done, %s)", about, event.Short(ttl)), true
	case event.Unrecorded:
		return p.yellow, "UNRECORDED", fmt.Sprintf("%s: accepted, its record does not say so: %s", about, reason), true
	case event.Unknown:
		return p.yellow, "UNKNOWN", about + ": " + reason, true
	case event.Retry:
		backoff := time.Duration(e.BackoffMS) * time.Millisecond
		return p.yellow, "RETRY", fmt.Sprintf("%s (%gs backoff)%s: %s", attempt(e), backoff.Seconds(), about, reason), true
	case event.DeadLetter:
		attempts := ""
		if e.Attempt > 0 {
			attempts = " after " + count(e.Attempt, "attempt")
		}
		whose := " notif:" + escape(e.ID)
		if e.ID == "" { // it can't be read
			whose = ""
		}
		return p.magenta, "DEAD-LETTER", fmt.Sprintf("%s -> %s%s: %s", whose, queue, attempts, reason), true
	case event.CopyWaiting:
		return p.yellow, "COPY WAITING", fmt.Sprintf("%s: %s: %s", about, queue, reason), true
	case event.Acked:
		return p.dim, "ACKED", about, true
	case event.Dropped:
		return p.dim, "DROPPED", about + ", its session is over: the broker hands it over again", true
	case event.GivenBack:
		return p.dim, "GIVEN BACK", fmt.Sprintf(" %d to %s", e.Messages, queue), true
	case event.Ready:
		return p.dim, "READY", ready(e, queue), true
	case event.Draining:
		return p.dim, "DRAINING", fmt.Sprintf(" %s: begins nothing more, finishes what is in hand", escape(e.Channel)), true
	case event.Crash:
		return p.red, "CRASH", fmt.Sprintf(" — worker dying %s (notif:%s)", where(e.Point), escape(e.ID)), true
	case event.Stopped:
		return p.red, "STOPPED", fmt.Sprintf(" — worker stopped %s (notif:%s)", where(e.Point), escape(e.ID)), true
	case event.Woke:
		return p.yellow, "WOKE", fmt.Sprintf("%s after %.1fs", about, float64(e.Elapsed)/1000), true
	case event.Restart:
		in := ""
		if e.WaitMS > 0 {
			in = fmt.Sprintf(" in %gs", float64(e.WaitMS)/1000)
		}
		return p.dim, "RESTART", fmt.Sprintf(" %s (%s)%s", escape(e.Owner), escape(e.Exit), in), true
	case event.GaveUp:
		return p.red, "GAVE UP", fmt.Sprintf(" %s after %s (%s)", escape(e.Owner), count(e.Restarts, "restart"), escape(e.Exit)), true
	case event.Exited:
		return p.dim, "", fmt.Sprintf("%s ended (%s)", escape(e.Owner), escape(e.Exit)), true
	case event.Disconnect:
		return p.yellow, "DISCONNECTED", " " + reason, true
	case event.Reconnected:
		return p.dim, "RECONNECTED", fmt.Sprintf(" after %.1fs: %s", float64(e.Elapsed)/1000, reason), true
	case event.Note:
		return p.dim, "", strings.TrimSpace(escape(e.Owner) + " " + reason), true
	case event.Log:
		return p.dim, "", escape(e.Line), true
	case event.Accepted:
		return p.green, "ACCEPTED", fmt.Sprintf(`%s for user:%s "%s"`, about, user, escape(e.Text)), true
	case event.AcceptedAgain:
		return p.red, "ACCEPTED AGAIN", fmt.Sprintf("%s for user:%s", about, user), true
	case event.Deduplicated:
		return p.yellow, "DEDUPLICATED", fmt.Sprintf("%s (key %s)", about, escape(e.Key)), true
	case event.Refused:
		return p.yellow, "REFUSED", fmt.Sprintf("%s for user:%s: %s", about, user, reason), true
	}
	return p.passLine(e, about)
}

// attempt is which one of how many, as far as they are counted.
func attempt(e event.Event) string {
	if e.Attempts == 0 {
		return ""
	}
	return fmt.Sprintf(" %d/%d", e.Attempt, e.Attempts)
}

// about is whom an event is about: on which channel, or where in the log.
func about(e event.Event) string {
	text := ""
	if e.Channel != "" || e.Position == nil && e.ID == "" {
		text += " " + escape(e.Channel)
	}
	if e.Position != nil {
		text += fmt.Sprintf(" P%d@%d", e.Partition, e.Offset)
	}
	if e.ID != "" {
		text += " notif:" + escape(e.ID)
	}
	return text
}

func (p palette) mark(on bool, text string) string {
	if !on {
		return ""
	}
	return p.yellow.Sprint(text)
}

// where says at which crash point, in the words of the lessons.
func where(point string) string {
	switch point {
	case "after-receive":
		return "after receive, BEFORE claim"
	case "after-claim":
		return "AFTER claim, BEFORE send"
	case "before-send":
		return "BEFORE send"
	case "mid-send":
		return "DURING send, answer unread"
	case "after-send":
		return "after send, BEFORE done"
	case "before-ack":
		return "after send, BEFORE ack"
	case "after-ack":
		return "AFTER ack"
	case "before-copy":
		return "before copy"
	case "after-copy":
		return "after copy, BEFORE ack"
	case "after-read":
		return "after read, BEFORE handling"
	case "before-commit":
		return "BEFORE commit"
	case "after-commit":
		return "AFTER commit"
	}
	return escape(point)
}

func settingsText(s *event.Settings) string {
	if s == nil {
		return "settings unknown, Redis does not answer"
	}
	if s.Ack == "early" {
		return "ack early, as with all off, whatever the settings say"
	}
	onOff := map[bool]string{true: "on", false: "off"}
	text := fmt.Sprintf("idempotency %s, claim-lease %s", onOff[s.Idempotency], onOff[s.ClaimLease])
	if s.ProviderKey {
		text += ", provider-key on"
	}
	if s.ClaimLease && !s.Idempotency {
		text += "; claim-lease alone does nothing"
	}
	return text
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func confirmed(state string) string {
	if state == "" {
		return ""
	}
	return " (" + state + ")"
}
