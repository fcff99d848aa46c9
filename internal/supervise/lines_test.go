package supervise

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"notifylab/internal/event"
)

// golang/go#69060
func TestLines_last_words_come_before_the_restart_every_time(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Policy: Policy{Grace: long, WaitDelay: long, Healthy: long, MaxRestarts: 99}})
	p := b.start(child("last-words"))
	b.awaitExit(p)

	lives := 0
	var outs, logs []string
	for _, e := range b.history.All() {
		switch {
		case e.Source == Source:
			lives++
			out, log := strings.Join(outs, ","), strings.Join(logs, ",")
			if e.Exit != "killed" || out != "claimed,crash" || log != "log 1,log 2, no newline" {
				t.Fatalf("before %s %d (%s): events %q, logs %q", e.Kind, e.Restarts, e.Exit, out, log)
			}
			outs, logs = nil, nil
		case e.Kind == event.Log:
			logs = append(logs, e.Line)
		default:
			outs = append(outs, string(e.Kind))
		}
	}
	if lives != 100 || len(outs)+len(logs) > 0 {
		t.Errorf("%d lives, want 100; after the last: %q %q", lives, outs, logs)
	}
}

// openfaas/of-watchdog#105
func TestLines_a_long_line_is_cut_and_the_child_works_on(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Policy: quick})
	p := b.start(child("long-line w"))
	b.await(is(event.Ready, "w"))
	if err := p.Stop(b.ctx); err != nil {
		t.Fatal(err)
	}
	if e := b.await(about(event.Exited, "w")); e.Exit != "exit 0" {
		t.Errorf("ended with %q", e.Exit)
	}
	want := strings.Repeat("x", maxText) + "…(+983040 bytes)"
	if got := b.all(func(e event.Event) bool { return e.Kind == event.Log && e.Line == want }); len(got) != 2 {
		t.Errorf("%d lines were cut to 64 KiB with a note, want 2", len(got))
	}
}

func TestLines_an_endless_line_comes_cut_when_its_writer_dies(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Policy: quick})
	b.awaitExit(b.start(once("endless")))
	got := b.all(func(e event.Event) bool { return e.Kind == event.Log })
	want := strings.Repeat("x", maxText) + fmt.Sprintf("…(+%d bytes)", 3<<20-maxText)
	if len(got) != 1 || got[0].Line != want {
		t.Errorf("%d lines, want one that ends in %s", len(got), want[maxText:])
	}
}

func TestLines_an_event_longer_than_a_log_line_stays_an_event(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Policy: quick})
	p := b.start(once("big-event"))
	e := b.await(is(event.Sent, "w"))
	if len(e.Text) != 2*maxText {
		t.Errorf("text has %d bytes, want %d", len(e.Text), 2*maxText)
	}
	if e.PID == 0 {
		t.Error("no pid")
	}
	b.awaitExit(p)
}

// mattn/goreman#128
func TestLines_of_two_children_come_whole_and_in_each_ones_order(t *testing.T) {
	t.Parallel()
	const lines = 10_000
	b := newBench(t, Config{Policy: quick})
	var processes []*Process
	for _, name := range []string{"push", "email"} {
		processes = append(processes, b.start(once(fmt.Sprintf("drip %s %d", name, lines))))
	}
	for _, p := range processes {
		b.awaitExit(p)
	}
	next := map[string]int{}
	for _, e := range b.all(func(e event.Event) bool { return e.Kind == event.Log }) {
		name, _, _ := strings.Cut(e.Line, " ")
		if want := fmt.Sprintf("%s line %06d of many", name, next[name]); e.Line != want {
			t.Fatalf("line %q, want %q", e.Line, want)
		}
		next[name]++
	}
	if next["push"] != lines || next["email"] != lines || len(next) != 2 {
		t.Errorf("lines: %v", next)
	}
}

func TestCut_leaves_no_half_characters_and_counts_what_it_leaves_out(t *testing.T) {
	t.Parallel()
	pad := strings.Repeat("x", maxText-2)
	for _, c := range []struct {
		line string
		more int
		want string
	}{
		{"short", 0, "short"},
		{pad + "xx", 0, pad + "xx"},
		{pad + "xxyyy", 0, pad + "xx…(+3 bytes)"},
		{pad + "€", 0, pad + "…(+3 bytes)"},
		{pad + "é", 0, pad + "é"},
		{pad + "é", 9, pad + "é…(+9 bytes)"},
		{pad + "\xe2\x82", 9, pad + "…(+11 bytes)"},
		{pad + "\x82\x82", 9, pad + "\x82\x82…(+9 bytes)"},
		{"", 9, "…(+9 bytes)"},
	} {
		if got := cut([]byte(c.line), c.more); got != c.want {
			t.Errorf("cut …%q, %d: …%q, want …%q", tail(c.line), c.more, tail(got), tail(c.want))
		}
	}
}

func tail(s string) string { return s[max(0, len(s)-24):] }

func TestReadLines_reads_what_is_in_the_pipe_when_its_deadline_has_passed(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close() // held open over the whole reading
	if _, err := w.WriteString("one\n\ntwo"); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	var got []string
	held := readLines(r, maxText, func(line []byte, more int) {
		got = append(got, fmt.Sprintf("%s+%d", line, more))
	})
	if want := "[one+0 +0 two+0]"; fmt.Sprint(got) != want || !held {
		t.Errorf("lines %v, held %t, want %s, held", got, held, want)
	}
}
