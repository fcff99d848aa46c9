package main

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A moment is the line at which a signal is sent; "" is as soon as it runs.
type moment = string

func TestSIGINT_or_SIGTERM_anywhere(t *testing.T) {
	t.Parallel()
	shared := newCorner(t)
	for _, tt := range []struct {
		args   string
		until  bool // it runs until it is told to stop
		moment moment
		during string // a produce that runs after READY
	}{
		{"worker push", true, "", ""},
		{"worker push", true, "READY", ""},
		{"worker push", true, "SENT", "--channel push --count 2000"},
		{"worker push --idempotency on --claim-lease on", true, "CLAIMED", "--channel push --count 500"},
		{"worker push --backoff 100ms", true, "RETRY", "--mode bad-token"},
		{"supervise", true, "", ""},
		{"supervise", true, "READY", ""},
		{"supervise push=2 email=2", true, "SENT", "--count 1000"},
		{"supervise push=1", true, "CRASH", "--channel push --crash-at before-send,always"},
		{"supervise push=1", true, "RESTART", "--channel push --crash-at after-receive,always"},
		{"provider --listen 127.0.0.1:0", true, "", ""},
		{"provider --listen 127.0.0.1:0", true, "provider at", ""},
		{"produce --count 1000000 --rate 1000/s", false, "", ""},
		{"produce --count 1000000 --rate 1000/s -o json", false, "confirmed", ""},
		{"produce --count 1000000 -o json", false, "confirmed", ""},
		// Of one run alone the signal may come too late.
		{"scenario fan-out --repeat 50", false, "", ""},
		{"scenario fan-out --repeat 50", false, "lesson", ""},
		{"scenario fan-out --repeat 50", false, "QUEUED", ""},
		{"scenario fan-out --repeat 50", false, "SENT", ""},
		{"scenario fan-out --repeat 50", false, "email notif", ""},
		{"scenario dead-letter --repeat 50", false, "RETRY 1/3", ""},
		{"scenario dead-letter --repeat 50", false, "RETRY 2/3", ""},
		{"scenario crash --repeat 50", false, "CRASH", ""},
		{"scenario crash --repeat 50", false, "RESTART", ""},
		{"scenario claim-lease --repeat 50", false, "CLAIM RECOVERED", ""},
		{"scenario all", false, "next:", ""},
		{"scenario all --repeat 2", false, "BUG REPRODUCED", ""},
		{"scenario all -o json", false, `"crash"`, ""},
		{"matrix --only none/before-ack/kill --only lease/after-claim/stop --only none/mid-send/stop", false, "at once", ""},
		{"matrix --only none/before-ack/kill --only lease/after-claim/stop --only none/mid-send/stop -o json", false, `"cell"`, ""},
	} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			t.Run(fmt.Sprintf("%s, %s at %s", tt.args, sig, tt.moment), func(t *testing.T) {
				t.Parallel()
				c := cornerAt(t, shared.amqp, shared.redis).raced()
				r := c.start(strings.Fields(tt.args)...)
				if tt.during != "" {
					r.awaitLine("READY")
					c.run(append([]string{"produce"}, strings.Fields(tt.during)...)...).wantStatus(0)
				}
				if tt.moment != "" {
					r.await(tt.moment, func() bool { return len(having(append(r.lines(), r.errors()...), tt.moment)) > 0 })
				}
				r.signal(sig)
				got, want := r.wait(), 128+int(sig)
				if tt.until && !(tt.moment == "" && got == want) { // before it is set up the kernel's answer stands
					want = 0
				}
				if got != want {
					t.Errorf("status %d, want %d\n%s", got, want, r.all())
				}
				if len(having(r.complaints(), "notifylab:")) > 0 {
					t.Errorf("stderr:\n%s", r.errorText())
				}
				c.awaitNoProcess()
				if strings.HasPrefix(tt.args, "scenario") || strings.HasPrefix(tt.args, "matrix") {
					c.wantClean(r.lines())
				}
			})
		}
	}
}

// One cause can send a signal twice; two signals, or one a while later, are two.
func TestFirstSignal(t *testing.T) {
	t.Parallel()
	at := time.Now()
	first := firstSignal{syscall.SIGINT, at}
	if !first.again(syscall.SIGINT, at.Add(50*time.Millisecond)) || first.again(syscall.SIGINT, at.Add(time.Second)) ||
		first.again(syscall.SIGTERM, at.Add(50*time.Millisecond)) || (firstSignal{}).again(syscall.SIGINT, at) {
		t.Error("want the same, soon, to be the first once more, and nothing else")
	}
}

func TestSIGINT_ends_a_provider_that_hangs(t *testing.T) {
	t.Parallel()
	c := cornerAt(t, "", "")
	r := c.start("provider", "--listen", "127.0.0.1:0", "--accept-and-hang", "push", "--delay", "email=1h")
	r.awaitError("provider at http://")
	url := strings.Fields(r.errors()[0])[2]
	answers := make(chan error, 2)
	for _, channel := range []string{"push", "email"} {
		go func() {
			res, err := http.Post(url+"/"+channel, "application/json", strings.NewReader(`{"id":"a","user":"7","text":"hello"}`))
			if err == nil {
				res.Body.Close()
				err = fmt.Errorf("status %d", res.StatusCode)
			}
			answers <- err
		}()
	}
	r.awaitLine("ACCEPTED push notif:a for user:7 \"hello\"")
	within(t, 5*time.Second, r.stop)
	for range 2 {
		if err := <-answers; strings.Contains(err.Error(), "status") {
			t.Errorf("a hanging call was answered: %v", err)
		}
	}
}

func TestProvider_says_that_others_can_reach_it(t *testing.T) {
	t.Parallel()
	c := cornerAt(t, "", "")
	r := c.start("provider", "--listen", "0.0.0.0:0")
	r.awaitError("provider at")
	if len(having(r.errors(), "not the loopback")) != 1 {
		t.Error(r.all())
	}
	r.stop()
}

func TestSIGKILL_of_a_scenario_or_supervisor(t *testing.T) {
	t.Parallel()
	shared := newCorner(t)
	for _, tt := range []struct {
		args   string
		moment moment
	}{
		{"supervise push=2 email=1", "READY"},
		{"supervise push=1 -- --provider-url GATE --send-timeout 50s --lease 1m --grace 5s", "RECEIVED"},
		{"scenario fan-out --repeat 50", "SENT"},
		{"scenario dead-letter --repeat 50", "RETRY 1/3"},
	} {
		t.Run(tt.args+" at "+tt.moment, func(t *testing.T) {
			t.Parallel()
			c := cornerAt(t, shared.amqp, shared.redis)
			c.publishN(1)
			r := c.start(strings.Fields(strings.ReplaceAll(tt.args, "GATE", newGate(t).url))...)
			r.awaitLine(tt.moment)
			c.awaitProcesses(2) // of the next run, if this one is over already
			r.signal(syscall.SIGKILL)
			within(t, 10*time.Second, c.awaitNoProcess)
		})
	}
	t.Run("scenario with a private pair", func(t *testing.T) {
		t.Parallel()
		skipUnlessAlone(t)
		c := cornerAt(t, "", "")
		r := c.startAlone(nil, "scenario", "dead-letter", "--repeat", "50")
		r.boots = true
		r.awaitError("starting a private RabbitMQ and Redis, about 8 s … ready after ")
		r.awaitLine("RETRY 1/3")
		c.awaitProcesses(5)
		r.signal(syscall.SIGKILL)
		within(t, 10*time.Second, c.awaitNoProcess)
	})
}

// rclone/rclone#4575
func TestStdout_closed_early(t *testing.T) {
	t.Parallel()
	shared := newCorner(t)
	for _, tt := range []struct{ args, first string }{
		{"worker push", "READY"},
		{"worker push -o json", "ready"},
		{"supervise push=1", "READY"},
		{"supervise push=1 -o json", "ready"},
		{"produce --count 1000000 --rate 2000/s -o json", "confirmed"},
		{"scenario fan-out --repeat 50", "lesson"},
		{"scenario fan-out --repeat 50 -v -o json", "queued"},
		{"scenario all", "QUEUED"},
		{"matrix --only none/before-ack/kill --only lease/after-claim/stop --repeat 5 -o json", `"cell"`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			c := cornerAt(t, shared.amqp, shared.redis)
			r := c.start(strings.Fields(tt.args)...)
			r.awaitLine(tt.first)
			r.closeStdout()
			if tt.first == "READY" || tt.first == "ready" {
				// Something to say, again and again: a program that another test is
				// just starting holds our end until it is one.
				eventually(t, "it goes on", func() string {
					c.publishN(1)
					if r.over() {
						return ""
					}
					return "after another notification"
				})
			}
			r.wantStatus(exitPipe)
			if len(r.complaints()) > 0 {
				t.Errorf("noise: %s", r.errorText())
			}
			c.awaitNoProcess()
			if strings.HasPrefix(tt.args, "scenario") {
				c.wantClean(r.lines())
			}
		})
	}
	t.Run("what ends by itself", func(t *testing.T) {
		t.Parallel()
		c := cornerAt(t, shared.amqp, shared.redis)
		for _, args := range []string{"scenario list", "scenario crash --help", "produce", "--help", "completion bash"} {
			r := c.launchClosed(command(t, strings.Fields(args)...))
			r.wantStatus(exitPipe)
			if r.errorText() != "" {
				t.Errorf("%s: noise: %s", args, r.errorText())
			}
		}
	})
}
