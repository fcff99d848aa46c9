package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/worker"
)

var closing = regexp.MustCompile(`^(\d+) queued, (\d+) confirmed, (\d+) returned, (\d+) unknown, (\d+\.\d)s$`)

// wantClosing expects produce's last line, with these counts.
func wantClosing(t *testing.T, r *running, queued, confirmed, returned, unknown int) (took time.Duration) {
	t.Helper()
	m := closing.FindStringSubmatch(r.lastLine())
	if m == nil {
		t.Fatalf("%s: %q is no closing line", r.name, r.lastLine())
	}
	want := fmt.Sprint(queued, confirmed, returned, unknown)
	if got := strings.Join(m[1:5], " "); got != want {
		t.Errorf("%s: got %s, want %s\n%s", r.name, got, want, r.all())
	}
	seconds, _ := strconv.ParseFloat(m[5], 64)
	return time.Duration(seconds * float64(time.Second))
}

func TestProduce_a_count_closes_with_a_tally(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	r := c.run("produce", "--count", "5000", "--channel", "push")
	r.wantStatus(0)
	took := wantClosing(t, r, 5000, 5000, 0, 0)
	if len(r.lines()) != 1 || r.errorText() != "" {
		t.Errorf("more than one line\n%s", r.all())
	}
	rate := 5000 / max(took, 100*time.Millisecond).Seconds()
	t.Logf("about %.0f a second, in a race build", rate)
	if rate < 50 { // so slow is no busy machine
		t.Errorf("%.0f a second", rate)
	}
	c.wantReady(c.names().Work(notify.Push), 5000)
}

// What --body says is published as it is, be it no notification or nothing at all.
func TestProduce_body(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	want := []string{`{"id":"1"`, "", "\xff"}
	for _, body := range want {
		c.run("produce", "--channel", "push", "--id", "bad", "--body", body).wantStatus(0)
	}
	for i, d := range c.consume(notify.Push, len(want)) {
		if string(d.Body) != want[i] {
			t.Errorf("published %q, want %q", d.Body, want[i])
		}
	}
	r := c.start("worker", "push")
	for _, reason := range []string{"unexpected EOF", "the body is empty", "invalid character"} {
		r.await(reason, func() bool { return len(having(r.lines(), "DEAD-LETTER -> push.dlq: malformed: ", reason)) == 1 })
	}
	r.signal(syscall.SIGTERM)
	r.wantStatus(0)
}

func TestProduce_rate_paces(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	r := c.run("produce", "--count", "51", "--rate", "50/s", "--channel", "email", "-o", "json")
	r.wantStatus(0)
	lines := r.lines()
	if len(lines) != 52 {
		t.Fatal(r.all())
	}
	var last tally
	if err := json.Unmarshal([]byte(lines[51]), &last); err != nil {
		t.Fatal(err)
	}
	// 50 waits of 20 ms; on a busy machine more.
	if last.ElapsedMS < 1000 {
		t.Errorf("51 events at 50/s took %d ms", last.ElapsedMS)
	}
	last.ElapsedMS = 0
	if want := (tally{Kind: "produced", Queued: 51, Confirmed: 51}); last != want {
		t.Errorf("got %+v, want %+v", last, want)
	}
}

func TestProduce_says_what_became_of_each(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	r := c.run("produce", "--id", "a1")
	r.wantStatus(0)
	want := []string{
		"producer        QUEUED push notif:a1 for user:7 -> notify.push (confirmed)",
		"producer        QUEUED email notif:a1 for user:7 -> notify.email (confirmed)",
	}
	lines := r.lines()
	wantClosing(t, r, 1, 2, 0, 0)
	for i, w := range want {
		if len(lines) != 3 || !regexp.MustCompile(`^\d\d:\d\d:\d\d\.\d{3}  `+regexp.QuoteMeta(w)+`$`).MatchString(lines[i]) {
			t.Errorf("want %s\n%s", w, r.all())
		}
	}

	r = c.run("produce", "--id", "b", "--count", "2", "--user", "42", "--channel", "push", "--channel", "push", "-o", "json")
	r.wantStatus(0)
	for i, line := range r.lines()[:2] {
		e, err := event.Decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		e.Time, e.PID = time.Time{}, 0
		want := event.Event{Kind: event.Queued, Source: "producer", ID: fmt.Sprintf("b-%d", i+1), Channel: "push", User: "42", State: "confirmed", Queue: c.ns + ".notify.push"}
		if e != want {
			t.Errorf("got  %+v\nwant %+v", e, want)
		}
	}
	if n := len(r.lines()); n != 3 {
		t.Errorf("%d lines, want two messages and the tally", n)
	}
}

// What is known is told before more is awaited.
func TestProduce_tells_at_once(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	r := c.start("produce", "--count", "2", "--rate", "0.001/s", "-o", "json")
	for _, channel := range []string{"push", "email"} {
		r.await(channel, func() bool { return len(having(r.lines(), `"kind":"queued"`, channel, "confirmed")) == 1 })
	}
	r.signal(syscall.SIGINT)
	r.wantStatus(exitInterrupted)
	if n := len(having(r.lines(), `"queued":1,"confirmed":2`)); n != 1 {
		t.Error(r.all())
	}
}

func TestProduce_modes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args        []string
		user, crash string
		channels    []notify.Channel
	}{
		{nil, "7", "", notify.Channels()},
		{[]string{"--mode", "default"}, "7", "", notify.Channels()},
		{[]string{"--mode", "crash"}, "7", "before-ack", []notify.Channel{notify.Push}},
		{[]string{"--mode", "crash-claim"}, "7", "after-claim", []notify.Channel{notify.Push}},
		{[]string{"--mode", "bad-token"}, "999", "", []notify.Channel{notify.Push}},
		{[]string{"--crash-at", "mid-send,stop,always", "--user", "8", "--channel", "email"}, "8", "mid-send,stop,always", []notify.Channel{notify.Email}},
		{[]string{"--mode", "crash", "--crash-at", "after-ack"}, "7", "after-ack", []notify.Channel{notify.Push}},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			t.Parallel()
			c := newCorner(t)
			r := c.run(append([]string{"produce", "--id", "m", "--text", "hello \x1b"}, tt.args...)...)
			r.wantStatus(0)
			wantClosing(t, r, 1, len(tt.channels), 0, 0)
			if err := c.connection().Declare(patience(t), c.topology(notify.Channels()...)); err != nil {
				t.Fatal(err)
			}
			for _, channel := range notify.Channels() {
				want := 0
				for _, to := range tt.channels {
					if to == channel {
						want = 1
					}
				}
				c.wantReady(c.names().Work(channel), want)
				for _, d := range c.consume(channel, want) {
					n, err := notify.Decode(d.Body)
					if err != nil || n != (notify.Notification{ID: "m", User: tt.user, Text: "hello \x1b"}) || d.Crash != tt.crash {
						t.Errorf("%s: %+v, crash at %q, %v", channel, n, d.Crash, err)
					}
				}
			}
		})
	}
}

func TestProduce_help_lists_what_can_be_armed(t *testing.T) {
	t.Parallel()
	text := cornerAt(t, "", "").nowhere().run("produce", "--help").text()
	for _, p := range worker.Points() {
		if strings.Count(text, "\n  "+string(p)+" ") != 1 {
			t.Errorf("no %s\n%s", p, text)
		}
	}
	for _, form := range []string{"POINT,stop ", "POINT,always ", "POINT,stop,always"} {
		if !strings.Contains(text, form) {
			t.Errorf("no %s\n%s", form, text)
		}
	}
}

func TestProduce_to_a_queue_that_is_not_there_is_returned(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	r := c.run("produce", "--declare=false", "--id", "a", "--count", "3")
	r.wantStatus(exitFinding)
	wantClosing(t, r, 3, 0, 6, 0)
	for i := range 3 {
		for _, channel := range notify.Channels() {
			line := fmt.Sprintf("RETURNED %s notif:a-%d: no queue notify.%s", channel, i+1, channel)
			if len(having(r.lines(), line)) != 1 {
				t.Errorf("no %s\n%s", line, r.all())
			}
		}
	}
	if n := c.ready(c.names().Work(notify.Push)); n >= 0 {
		t.Error("--declare=false has made a queue")
	}
}
