package main

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestEscape(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                       "",
		"your pass expires soon": "your pass expires soon",
		"grüße, 世界, שלום, 👩\u200d🚀 é": "grüße, 世界, שלום, 👩\u200d🚀 é",
		"no\u00a0break　wide":          "no\u00a0break　wide",
		"a\nb\r\nc\td":                `a\nb\r\nc\td`,
		"\x1b[31mred\x1b[0m":          `\x1b[31mred\x1b[0m`,
		"\x1b]0;title\a":              `\x1b]0;title\x07`,
		"bell\a back\b null\x00":      `bell\x07 back\x08 null\x00`,
		"\x7f":                        `\x7f`,
		"\u009b31m":                   `\u009b31m`,
		"\u202eevil\u2066\u2069":      `\u202eevil\u2066\u2069`,
		"\u061c\u200e\u200f":          `\u061c\u200e\u200f`,
		"\u2028\u2029\u0085":          `\u2028\u2029\u0085`,
		"\ufeffbom \u00adsoft":        `\ufeffbom \u00adsoft`,
		"\U000e0041tag":               `\U000e0041tag`,
		"\xff\xc3(":                   `\xff\xc3(`,
		"\xe2\x80":                    `\xe2\x80`,
		"\ufffd":                      `\ufffd`,
	} {
		if got := escape(in); got != want {
			t.Errorf("escape(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestEscapeLines_keeps_a_newline_from_starting_a_line_of_ours(t *testing.T) {
	t.Parallel()
	if got, want := escapeLines("one\nnotifylab: two\x1b\n"), "one\n    notifylab: two\\x1b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzEscape(f *testing.F) {
	for _, s := range []string{"plain", "\x1b[2J\r\n", "\u202e\u2028\u009b", "\xff\xfe\xed\xa0\x80", "👩\u200d🚀\ufffd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := escape(s)
		if !utf8.ValidString(got) {
			t.Fatalf("escape(%q) = %q is not UTF-8", s, got)
		}
		for _, r := range got {
			joiner := r == '\u200c' || r == '\u200d'
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && !joiner || unicode.Is(unicode.Bidi_Control, r) ||
				unicode.In(r, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs) || r == utf8.RuneError {
				t.Fatalf("escape(%q) = %q holds %U", s, got, r)
			}
		}
		if again := escape(got); again != got {
			t.Fatalf("escape(%q) = %q, and of that %q", s, got, again)
		}
		printable := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) < 0
		if printable && got != s {
			t.Fatalf("escape(%q) = %q changes what is printable", s, got)
		}
	})
}
