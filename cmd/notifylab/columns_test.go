package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"notifylab/internal/event"
	"notifylab/internal/scenario"
)

func TestLayOut(t *testing.T) {
	t.Parallel()
	rows := [][]string{{"name", "needed by"}, {"lease", "one, two, three, four"}, {"a-long-word", "none"}, {"more"}}
	for width, want := range map[int]string{
		0:  "name         needed by            |lease        one, two, three, four|a-long-word  none                 |more       ",
		24: "name         needed by  |lease        one, two,  |             three, four|a-long-word  none       |more       ",
		5:  "name         needed|             by    |lease        one,  |             two,  |             three,|             four  |a-long-word  none  |more       ",
	} {
		var lines []string
		for _, row := range layOut(rows, "  ", width) {
			lines = append(lines, row...)
		}
		if got := strings.Join(lines, "|"); got != want {
			t.Errorf("%d:\n%s\nwant\n%s", width, got, want)
		}
	}
}

// Whatever is found, a report fits on a page, and nothing of it is lost.
func TestTable_fits_on_a_page(t *testing.T) {
	t.Parallel()
	long := "claimed, stopped, lease busy, claimed, sent, done, woke, lease lost"
	var b bytes.Buffer
	table(&printer{w: event.NewWriter(&b), palette: newPalette(false)}, []scenario.Finding{
		{What: "notify.push, before it was woken", Want: "0 messages", Got: "0 messages", OK: true},
		{What: "worker lines", Want: long, Got: long + ", sent"},
	})
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > pageWidth {
			t.Errorf("%d: %s", n, line)
		}
	}
	if len(lines) != 5 || !strings.HasSuffix(lines[1], "   ok") || !strings.HasSuffix(lines[2], "   NOT OK") || strings.Contains(lines[3], "OK") {
		t.Errorf("%q", lines)
	}
	for _, word := range []string{"woke,", "lost"} { // want and got
		if n := strings.Count(b.String(), word); n != 2 {
			t.Errorf("%s %d times\n%s", word, n, b.String())
		}
	}
}
