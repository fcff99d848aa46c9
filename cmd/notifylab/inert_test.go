package main

import (
	"encoding/json"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// hostile is what a text may hold: a colour, a title, carriage return, newlines, a
// forged line, bidi marks, C1 controls, and a separator.
const (
	hostile      = "\x1b[31mred\x1b]0;t\a\rSENT push notif:x\n12:00:00.000  push-worker-1   SENT\u202e\u2066\u0085\u009b2J\u2028end"
	hostileShown = `\x1b[31mred\x1b]0;t\x07\rSENT push notif:x\n12:00:00.000  push-worker-1   SENT\u202e\u2066\u0085\u009b2J\u2028end`
	hostileUser  = "7\u202e8\u2067"
)

// COVESA/dlt-daemon#888
func TestText_or_user_with_escape_codes_CR_newlines_bidi_marks(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"worker push", "supervise push=1"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			c := newCorner(t)
			text := c.start(strings.Fields(args)...)
			text.awaitLine("READY")
			p := c.run("produce", "--id", "evil", "--channel", "push", "--user", hostileUser, "--text", hostile)
			p.wantStatus(0)
			wantInert(t, p)
			line := text.awaitLine("SENT push notif:evil")
			if want := `SENT push notif:evil -> user:7\u202e8\u2067 "` + hostileShown + `"`; !strings.HasSuffix(line, want) {
				t.Errorf("got  %s\nwant %s", line, want)
			}
			// What is no notification is parked, and said to be so in one line.
			c.publish([]byte(hostile), []byte(`{"id":"a\n\u001b","user":"`+hostileUser+`","text":""}`), []byte("\xff\xfe{"))
			text.awaitLines(3, "DEAD-LETTER", "malformed")
			text.stop()
			wantInert(t, text)

			js := c.start(append(strings.Fields(args), "-o", "json")...)
			js.awaitLine(`"ready"`)
			p = c.run("produce", "--id", "evil2", "--channel", "push", "--user", hostileUser, "--text", hostile, "-o", "json")
			p.wantStatus(0)
			var queued event.Event
			if err := json.Unmarshal([]byte(p.lines()[0]), &queued); err != nil || queued.User != hostileUser {
				t.Errorf("%v: %+v", err, queued)
			}
			js.awaitLine(`"sent"`, "evil2")
			js.stop()
			sent := 0
			for _, e := range js.events() {
				if e.Kind == event.Sent {
					sent++
					if e.Text != hostile || e.User != hostileUser {
						t.Errorf("JSON has %q for %q", e.Text, e.User)
					}
				}
			}
			if sent != 1 {
				t.Errorf("%d sent", sent)
			}
		})
	}
	t.Run("scenario", func(t *testing.T) {
		t.Parallel()
		c := newCorner(t)
		r := c.run("scenario", "crash", "-v")
		r.wantStatus(0)
		wantInert(t, r)
	})
}

// What stands in the headers of a dead letter is anybody's. (ankit373/hydra#432)
func TestDLQ_with_escape_codes_everywhere(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	c.bury(1)
	conn, err := amqp.Dial(c.amqp)
	do(t, "dial", err)
	defer conn.Close()
	ch, err := conn.Channel()
	do(t, "channel", err)
	headers := amqp.Table{"x-first-death-reason": hostile}
	for _, name := range []string{"reason", "first-error", "last-error", "time", "worker", "history", "crash"} {
		headers["x-notifylab-"+name] = hostile
	}
	do(t, "confirms", ch.Confirm(false))
	sent, err := ch.PublishWithDeferredConfirm("", c.deadLetters(), true, false, amqp.Publishing{MessageId: hostile, Headers: headers, Body: []byte(hostile)})
	do(t, "publish", err)
	sent.Wait()
	for _, args := range []string{"list push", "show push", "replay push --all --dry-run", "replay push --all"} {
		r := c.run(append([]string{"dlq"}, strings.Fields(args)...)...)
		r.wantStatus(exitOK)
		wantInert(t, r)
		if len(having(r.lines(), hostileShown)) == 0 {
			t.Errorf("it is not shown\n%s", r.all())
		}
	}
}

// wantInert expects lines that can't do anything to a terminal, each an event of
// its own: one that an outsider forged would come a second time.
func wantInert(t *testing.T, r *running) {
	t.Helper()
	for _, line := range append(r.lines(), r.errors()...) {
		if escape(line) != line {
			t.Errorf("%s: %q", r.name, line)
		}
		if strings.HasPrefix(line, "12:00:00.000") {
			t.Errorf("%s: forged: %q", r.name, line)
		}
	}
}

func TestEscaped_text_does_not_come_from_the_queue(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	c.run("produce", "--channel", "push", "--text", hostile).wantStatus(0)
	n, err := notify.Decode(c.consume(notify.Push, 1)[0].Body)
	if err != nil || n.Text != hostile {
		t.Errorf("the message has %q, %v", n.Text, err)
	}
}
