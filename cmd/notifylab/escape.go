package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escape makes text from outside safe for a terminal: one line of it, with
// everything that could move the cursor, colour, hide or reorder what is shown
// written out. What a person would read stays as it is.
func escape(s string) string {
	clean := true
	for _, r := range s {
		if !shown(r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case shown(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// shown says whether a rune is safe to show. Joiners are part of scripts and
// emoji, and spaces are what they seem; bidirectional marks, controls, and
// separators of lines are not safe.
func shown(r rune) bool {
	const zeroWidthNonJoiner, zeroWidthJoiner = '\u200c', '\u200d'
	return r != utf8.RuneError &&
		(unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) || r == zeroWidthNonJoiner || r == zeroWidthJoiner)
}

// escapeLines is escape for text of several lines, such as joined errors. All but
// the first are indented: a newline from outside starts no line that looks like
// one of ours.
func escapeLines(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, l := range lines {
		lines[i] = escape(l)
	}
	return strings.Join(lines, "\n    ")
}
