package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

func TestWatch_on_a_pipe_is_a_line_per_change(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	text, objects := c.start("settings", "-w"), c.start("settings", "--watch", "-o", "json")
	text.awaitLines(3)
	objects.awaitLines(3)
	c.run("settings", "set", "idempotency=on").wantStatus(0)
	text.awaitLine("  idempotency  on")
	objects.awaitLine(`"name":"idempotency"`, `"on":true`)
	c.run("settings", "set", "idempotency=on").wantStatus(0) // no change
	c.run("settings", "set", "claim-lease=on").wantStatus(0)
	text.awaitLine("  claim-lease  on")
	objects.awaitLine(`"name":"claim-lease"`, `"on":true`)
	text.stop()
	objects.stop()
	if len(text.lines()) != 5 || len(objects.objects()) != 5 || strings.Contains(text.text(), "\x1b") {
		t.Errorf("%s\n%s", text.all(), objects.all())
	}
	for _, l := range text.lines() {
		if _, err := time.Parse("15:04:05.000", strings.Fields(l)[0]); err != nil {
			t.Errorf("%q does not begin with the time", l)
		}
	}
}

func TestWatch_records_shows_pending_become_done_and_what_is_gone(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	g := newGate(t)
	text, objects := c.start("records", "-w"), c.start("records", "-w", "-o", "json")
	w := c.start("worker", "push", "--idempotency", "on", "--claim-lease", "on", "--provider-url", g.url, "--send-timeout", "20s", "--lease", "40s")
	w.awaitLine("READY")
	c.run("produce", "--channel", "push", "--id", "n1").wantStatus(0)
	text.awaitLine("notification:n1:push:7  pending  push-worker-1  ")
	objects.awaitLine(`"pending"`)
	close(g.open)
	text.awaitLine("notification:n1:push:7  done  push-worker-1  ")
	objects.awaitLine(`"done"`)
	w.stop()
	if err := c.store().Del(patience(t), c.key("notification:n1:push:7")).Err(); err != nil {
		t.Fatal(err)
	}
	text.awaitLine("notification:n1:push:7  gone")
	objects.awaitLine(`"gone":true`)
	text.stop()
	objects.stop()
	// The passing of time is no change.
	var states []any
	for _, o := range objects.objects() {
		if o["kind"] != "record" || o["key"] != c.key("notification:n1:push:7") {
			t.Errorf("got %v", o)
		}
		states = append(states, o["state"])
	}
	if !slices.Equal(states, []any{"pending", "done", nil}) || len(text.lines()) != 3 {
		t.Errorf("%q\n%s", states, text.all())
	}
}

func TestWatch_nobody_reads(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	r := c.start("settings", "-w")
	r.awaitLines(3)
	r.closeStdout()
	// Again and again: a program that another test is just starting holds our end
	// until it is one.
	on := false
	eventually(t, "it goes on", func() string {
		on = !on
		c.run("settings", "set", "idempotency="+map[bool]string{false: "off", true: "on"}[on]).wantStatus(0)
		if r.over() {
			return ""
		}
		return "after another change"
	})
	r.wantStatus(exitPipe)
	if r.errorText() != "" {
		t.Error(r.all())
	}
}

// A server that is restarted ends no watch.
func TestWatch_server_away(t *testing.T) {
	t.Parallel()
	c, redis := newCorner(t).withRedis()
	r := c.start("settings", "-w")
	r.awaitLines(3)
	redis.kill()
	r.awaitError("read settings: ", "; trying again")
	redis.start()
	c.run("settings", "set", "idempotency=on").wantStatus(0)
	r.awaitLine("idempotency  on")
	r.stop()
	if n := len(r.errors()); n != 1 {
		t.Errorf("it was said %d times\n%s", n, r.all())
	}
}

// terminal runs the program on a terminal of some size, and returns with it how to
// interrupt it.
func (c corner) terminal(rows, columns int, args ...string) (*running, func()) {
	c.t.Helper()
	wrapper := filepath.Join(c.dir, "sized")
	script := "#!/bin/sh\nstty rows " + strconv.Itoa(rows) + " cols " + strconv.Itoa(columns) + "\necho $$ >" + wrapper + ".pid\nexec \"$@\"\n"
	if err := os.WriteFile(wrapper, []byte(script), 0o755); err != nil {
		c.t.Fatal(err)
	}
	r := c.launch(onTerminal(c.t, wrapper, append([]string{binary(c.t)}, c.placed(args)...)...))
	return r, func() {
		c.t.Helper()
		text, err := os.ReadFile(wrapper + ".pid")
		if err != nil {
			c.t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			c.t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGINT); err != nil {
			c.t.Fatal(err)
		}
	}
}

func TestWatch_on_a_terminal_is_redrawn_in_place(t *testing.T) {
	t.Parallel()
	const clear, home, below = "\x1b[2J", "\x1b[H", "\x1b[J"
	shared := newCorner(t)
	drawn := func(t *testing.T, rows, columns int) []string {
		c := cornerAt(t, shared.amqp, shared.redis)
		r, interrupt := c.terminal(rows, columns, "settings", "-w")
		r.await("drawing", func() bool { return strings.Count(r.text(), home) == 1 })
		c.run("settings", "set", "idempotency=on").wantStatus(0)
		r.await("drawing again", func() bool { return strings.Count(r.text(), home) == 2 })
		interrupt()
		r.wantStatus(0)
		text := strings.ReplaceAll(r.text(), "\r", "")
		if strings.Count(text, clear) != 1 || strings.Count(text, below) != 2 {
			t.Errorf("%q", text)
		}
		frames := strings.Split(text, home)
		return frames[1:]
	}
	t.Run("whole", func(t *testing.T) {
		t.Parallel()
		for i, frame := range drawn(t, 24, 200) {
			lines := strings.Split(frame, "\n")
			if len(lines) < 4 || !strings.HasPrefix(lines[0], "setting") || strings.Contains(lines[1], "on  ") != (i == 1) || !strings.Contains(lines[3], "provider-key") {
				t.Errorf("frame %d: %q", i, lines)
			}
		}
	})
	t.Run("cut", func(t *testing.T) {
		t.Parallel()
		for _, frame := range drawn(t, 4, 20) {
			lines := strings.Split(strings.ReplaceAll(frame, "\x1b[K", ""), "\n")
			if len(lines) < 3 || lines[0] != "setting       now  …" || !strings.HasPrefix(lines[1], "idempotency   o") || lines[2] != "… 2 more" {
				t.Errorf("%q", lines)
			}
		}
	})
	t.Run("a terminal that can't", func(t *testing.T) {
		t.Parallel()
		c := cornerAt(t, shared.amqp, shared.redis).with("TERM=dumb")
		r, interrupt := c.terminal(24, 80, "settings", "-w")
		r.awaitLines(3)
		interrupt()
		r.wantStatus(0)
		if strings.Contains(r.text(), "\x1b") {
			t.Errorf("%q", r.text())
		}
	})
}

// On a terminal a list is as wide as that, elsewhere a row is a line.
func TestList_is_wrapped_on_a_terminal_only(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	r, _ := c.terminal(24, 120, "settings")
	r.wantStatus(0)
	lines := r.lines()
	for _, line := range lines {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\r")); n > 120 {
			t.Errorf("%d wide: %q", n, line)
		}
	}
	piped := c.run("settings").lines()
	if len(lines) <= 4 || len(piped) != 4 {
		t.Errorf("%q, in a pipe %q", lines, piped)
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text          string
		width, height int
		want          string
	}{
		{"a\nb\n", 10, 3, "a\nb\n"},
		{"a\nb\n", 10, 2, "… 2 more\n"},
		{"a\nb\nc\n", 10, 3, "a\n… 2 more\n"},
		{"a\nb\n", 10, 1, "… 2 more\n"},
		{"äöüß\n", 4, 3, "äöüß\n"},
		{"äöüßx\n", 4, 3, "äöü…\n"},
	} {
		if got := fit(tt.text, tt.width, tt.height); got != tt.want {
			t.Errorf("%q on %d×%d: got %q, want %q", tt.text, tt.width, tt.height, got, tt.want)
		}
	}
}
