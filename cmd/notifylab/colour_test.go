package main

import (
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// onTerminal is the command that runs another with a terminal as its output, and
// repeats that.
func onTerminal(t *testing.T, path string, args ...string) *exec.Cmd {
	t.Helper()
	script, err := exec.LookPath("script")
	if err != nil {
		t.Fatalf("script, which has a terminal, is part of every Linux and macOS: %v", err)
	}
	if runtime.GOOS == "darwin" {
		return exec.Command(script, append([]string{"-q", "/dev/null", path}, args...)...)
	}
	return exec.Command(script, "-qec", strings.Join(append([]string{path}, args...), " "), "/dev/null")
}

// termcolor/termcolor#92
func TestColour(t *testing.T) {
	t.Parallel()
	shared := newCorner(t)
	for _, tt := range []struct {
		flag     string
		env      []string
		terminal bool
		want     bool
	}{
		{"", nil, false, false},
		{"", nil, true, true},
		{"", []string{"TERM=dumb"}, true, false},
		{"", []string{"NO_COLOR=1"}, true, false},
		{"", []string{"NO_COLOR="}, true, true}, // an empty one does not count
		{"", []string{"NO_COLOR="}, false, false},
		{"", []string{"FORCE_COLOR=1"}, false, true},
		{"", []string{"FORCE_COLOR="}, false, false},
		{"", []string{"FORCE_COLOR=1", "TERM=dumb"}, false, true},
		{"", []string{"FORCE_COLOR=1", "NO_COLOR=1"}, false, false},
		{"--color=always", []string{"NO_COLOR=1", "TERM=dumb"}, false, true},
		{"--color=never", []string{"FORCE_COLOR=1"}, true, false},
		{"--color=auto", nil, true, true},
		{"--color=auto", nil, false, false},
		{"--color=always -o=json", nil, true, false}, // JSON is JSON
	} {
		name := strings.Join(append([]string{tt.flag}, tt.env...), " ")
		if tt.terminal {
			name += " terminal"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cornerAt(t, shared.amqp, shared.redis).with(tt.env...)
			args := c.placed(append([]string{"produce"}, strings.Fields(tt.flag)...))
			cmd := exec.Command(binary(t), args...)
			if tt.terminal {
				cmd = onTerminal(t, binary(t), args...)
			}
			r := c.launch(cmd)
			r.wantStatus(0)
			if len(r.lines()) != 3 {
				t.Errorf("want three lines\n%s", r.all())
			}
			if got := strings.Contains(r.text(), "\x1b["); got != tt.want {
				t.Errorf("coloured: %t, want %t: %q", got, tt.want, r.text())
			}
		})
	}
}

// What is coloured in a scenario: times and the supervisor are dim, and the words.
func TestColour_is_on_words_only(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	plain := regexp.MustCompile("\x1b\\[[0-9;]*m")
	span := regexp.MustCompile("\x1b\\[[0-9;]+m([^\x1b]*)\x1b\\[[0-9;]*m")
	words := regexp.MustCompile(`^(QUEUED|RECEIVED|CLAIMED|SENT|DONE|CRASH|RESTART|READY|DUPLICATE DROPPED|CLAIM RECOVERED|RETRY|DEAD-LETTER|BUG REPRODUCED|FIXED|HELD|ok|\(redelivered\)|supervisor|\+\d+\.\d{3})$`)
	for _, name := range []string{"crash", "crash-claim", "claim-lease", "dead-letter"} {
		r := c.run("scenario", name, "--color", "always")
		r.wantStatus(0)
		spans := span.FindAllStringSubmatch(r.text(), -1)
		if len(spans) < 10 {
			t.Errorf("%s has %d coloured words", name, len(spans))
		}
		for _, m := range spans {
			if !words.MatchString(strings.TrimSpace(m[1])) {
				t.Errorf("%s: %q is coloured", name, m[1])
			}
		}
		if left := plain.ReplaceAllString(r.text(), ""); strings.Contains(left, "\x1b") {
			t.Errorf("%s: %q", name, left)
		}
	}
}

// grep -E 'SENT|CRASH|DUPLICATE' finds the events and nothing else.
func TestCapitals_are_events_only(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	grep, event := regexp.MustCompile(`SENT|CRASH|DUPLICATE`), regexp.MustCompile(`^  \+\d+\.\d{3}  \S+ +(SENT|CRASH|DUPLICATE DROPPED) `)
	for name, want := range map[string][]string{
		"crash":       {"SENT", "CRASH", "SENT", "SENT"},
		"idempotency": {"SENT", "CRASH", "DUPLICATE DROPPED", "SENT"},
		"crash-claim": {"CRASH", "DUPLICATE DROPPED", "SENT"},
		"claim-lease": {"CRASH", "SENT", "SENT"},
	} {
		r := c.run("scenario", name)
		r.wantStatus(0)
		var got []string
		for _, line := range r.lines() {
			if !grep.MatchString(line) {
				continue
			}
			m := event.FindStringSubmatch(line)
			if m == nil {
				t.Errorf("%s: %q is no event", name, line)
				continue
			}
			got = append(got, m[1])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q\n%s", name, got, want, r.text())
		}
	}
}
