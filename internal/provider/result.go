package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"notifylab/internal/notify"
)

// maxReason bounds a reason, in characters.
const maxReason = 160

// answered is the result of an attempt whose answer's status was read. What
// became of the body afterwards does not matter.
func answered(status int, body []byte) notify.Result {
	r := notify.Result{Reason: oneLine(strconv.Itoa(status) + " " + firstLine(body, status))}
	switch {
	case status >= 200 && status <= 299:
		return notify.Result{Answer: notify.Accepted}
	case status == http.StatusGone:
		r.Answer = notify.RefusedForGood
	case status == http.StatusServiceUnavailable,
		status >= 300 && status <= 499:
		r.Answer = notify.RefusedForNow
	default:
		// Other 5xx, and what HTTP does not know: it broke somewhere behind
		// the door, and nobody says on which side of accepting it.
		r.Answer = notify.Unknown
	}
	return r
}

// failed is the result of an attempt that ended without an answer, after
// taking that long.
func failed(err error, untouched bool, took time.Duration) notify.Result {
	answer, missing := notify.Unknown, "no answer"
	if untouched {
		answer, missing = notify.NotSent, "nothing sent"
	}
	return notify.Result{Answer: answer, Reason: oneLine(reason(err, missing, took))}
}

func reason(err error, missing string, took time.Duration) string {
	var timeout net.Error
	var op *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("%s within %s", missing, rounded(took))
	case errors.Is(err, context.Canceled):
		return missing + ", cancelled"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return missing + ", connection closed"
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Sprintf("%s, %v", missing, op)
	case op != nil:
		return fmt.Sprintf("%s, %v", missing, op.Err) // without two addresses, one of them by chance
	}
	// The wrapping tells of net/http's insides; what went wrong is at the core.
	for core := err; core != nil; core = errors.Unwrap(core) {
		err = core
	}
	return fmt.Sprintf("%s, %v", missing, err)
}

func rounded(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}

// firstLine returns the first line of an answer that says something, or what
// its status is called.
func firstLine(body []byte, status int) string {
	for line := range strings.Lines(string(body)) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return strings.ToLower(http.StatusText(status))
}

// oneLine makes s fit for a line of text: no control characters, bounded. What
// a provider says is not ours.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.TrimSpace(s)
	n := 0
	for i := range s {
		if n++; n > maxReason {
			return s[:i] + "…"
		}
	}
	return s
}
