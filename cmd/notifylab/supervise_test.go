package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"notifylab/internal/event"
)

func TestSupervise_names_workers_by_their_READY_and_hands_them_their_flags(t *testing.T) {
	t.Parallel()
	c := newCorner(t).with("IDEMPOTENCY_ENABLED=on")
	r := c.start("supervise", "push=2", "email", "--", "--claim-lease", "on", "--provider-key", "on")
	for _, name := range []string{"push-worker-1", "push-worker-2"} {
		r.awaitLine(name, "READY on notify.push (idempotency on, claim-lease on, provider-key on)")
	}
	r.awaitLine("email-worker-1", "READY on notify.email (idempotency on, claim-lease on, provider-key on)")
	r.stop()
	for _, name := range []string{"push-worker-1", "push-worker-2", "email-worker-1"} {
		if n := len(having(r.lines(), "supervisor", name+" ended (exit 0)")); n != 1 {
			t.Errorf("%s ended %d times\n%s", name, n, r.all())
		}
	}
	if len(having(r.lines(), "RESTART")) > 0 || len(r.complaints()) > 0 {
		t.Error(r.all())
	}
}

func TestSupervise_restarts_a_worker_that_was_killed_after_its_last_lines(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	r := c.start("supervise", "push=1", "-o", "json", "--", "--prefetch", "1", "--concurrency", "1")
	r.awaitLine(`"ready"`)
	pid := r.events()[0].PID
	c.publishN(200)
	r.awaitLines(20, `"sent"`)
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.awaitLines(2, `"ready"`)
	r.awaitLine(`"sent"`, `"n200"`)
	r.stop()
	restarted := false
	sent := map[string]bool{}
	for _, e := range r.events() {
		switch {
		case e.Kind == event.Restart:
			restarted = true
			if e.Source != "supervisor" || e.Owner != "push-worker-1" || e.Exit != "killed" {
				t.Errorf("%+v", e)
			}
		case restarted && e.PID == pid:
			t.Errorf("after its RESTART the dead one says %s of %s", e.Kind, e.ID)
		case e.Kind == event.Sent:
			sent[e.ID] = true
		}
	}
	if !restarted || len(sent) != 200 {
		t.Errorf("restarted %t, %d of 200 sent", restarted, len(sent))
	}
}

func TestSupervise_gives_one_up_and_the_other_goes_on(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	r := c.start("supervise", "--max-restarts", "2")
	r.awaitLines(2, "READY")
	c.run("produce", "--channel", "push", "--crash-at", "before-send,always", "--id", "killer").wantStatus(0)
	r.awaitLine("supervisor", "GAVE UP push-worker-1 after 2 restarts (killed)")
	if n := len(having(r.lines(), "RESTART push-worker-1 (killed)")); n != 2 {
		t.Errorf("%d restarts\n%s", n, r.all())
	}
	c.run("produce", "--channel", "email", "--id", "later").wantStatus(0)
	r.awaitLine("SENT email notif:later")
	r.signal(syscall.SIGINT)
	r.wantStatus(exitFinding)
	if got, want := strings.Join(r.complaints(), "\n"), "notifylab: gave up push-worker-1 after 2 restarts (killed)"; got != want {
		t.Errorf("stderr %q, want %q", got, want)
	}
	if len(having(r.lines(), "email-worker-1 ended (exit 0)")) != 1 {
		t.Error(r.all())
	}
}

func TestSupervise_ends_when_all_are_given_up(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	r := c.start("supervise", "push=1", "--max-restarts", "1")
	r.awaitLine("READY")
	c.run("produce", "--channel", "push", "--crash-at", "after-receive,always").wantStatus(0)
	r.wantStatus(exitFinding)
	if len(having(r.lines(), "GAVE UP push-worker-1 after 1 restart (killed)")) != 1 {
		t.Error(r.all())
	}
}

func TestSupervise_a_second_SIGINT_kills(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	g := newGate(t)
	r := c.start("supervise", "push=1", "--grace", "1m", "--", "--provider-url", g.url, "--send-timeout", "50s", "--lease", "1m")
	r.awaitLine("READY")
	c.publishN(1)
	r.awaitLine("RECEIVED")
	within(t, 10*time.Second, func() {
		// Signals of a kind that are not yet delivered are one: more than two are
		// sent, until it ends.
		eventually(t, "it goes on", func() string {
			r.signal(syscall.SIGINT)
			if r.over() {
				return ""
			}
			return "after another signal"
		})
		r.wantStatus(exitInterrupted)
		c.awaitNoProcess()
	})
	if len(having(r.lines(), "push-worker-1 ended (killed)")) != 1 || len(having(r.lines(), "RESTART")) > 0 {
		t.Error(r.all())
	}
}

func TestWorker_whose_work_takes_longer_than_the_grace(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		grace   string
		signals int
		status  int
		said    string
	}{
		"is given up":          {"300ms", 1, exitFinding, "notifylab: push-worker-1: what was in hand took longer than the grace of 300ms"},
		"ends at a second one": {"1m", 2, exitTerminated, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCorner(t)
			r := c.start("worker", "push", "--grace", tt.grace, "--provider-url", newGate(t).url, "--send-timeout", "50s", "--lease", "1m")
			r.awaitLine("READY")
			c.publishN(1)
			r.awaitLine("RECEIVED")
			within(t, 10*time.Second, func() {
				r.signal(syscall.SIGTERM)
				if tt.signals > 1 {
					eventually(t, "it goes on", func() string {
						r.signal(syscall.SIGTERM)
						if r.over() {
							return ""
						}
						return "after another signal"
					})
				}
				r.wantStatus(tt.status)
			})
			if said := strings.Join(r.complaints(), "\n"); said != tt.said {
				t.Errorf("stderr %q, want %q", said, tt.said)
			}
			c.wantReady(c.names().Work("push"), 1) // the message is back
		})
	}
}

func TestWorker_told_to_stop_finishes_what_is_in_hand_and_gives_back_the_rest(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"worker push", "supervise push=1 --"} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			t.Run(fmt.Sprint(args, " ", sig), func(t *testing.T) {
				t.Parallel()
				c := newCorner(t)
				g := newGate(t)
				r := c.start(append(strings.Fields(args), "--prefetch", "4", "--concurrency", "1", "--provider-url", g.url, "--send-timeout", "50s", "--lease", "1m")...)
				r.awaitLine("READY")
				const all = 500
				c.publishN(all)
				r.awaitLine("RECEIVED push notif:n1")
				r.signal(sig)
				r.awaitLine("DRAINING push") // or it may send all before it hears of the signal
				close(g.open)
				r.wantStatus(0)
				sent := len(having(r.lines(), "SENT"))
				// What was received and not begun is given back, too.
				if received := len(having(r.lines(), "RECEIVED")); sent == 0 || sent == all || received < sent || received-sent > 4 {
					t.Errorf("%d received, %d sent", received, sent)
				}
				c.wantReady(c.names().Work("push"), all-sent) // the rest is given back
			})
		}
	}
}
