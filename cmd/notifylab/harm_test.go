package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"notifylab/internal/servers"
	"notifylab/internal/servers/serverstest"
)

// One pair is harmed by one test after another.
func TestServers_that_come_and_go(t *testing.T) {
	t.Parallel()
	pair := serverstest.Own(t)
	t.Run("RabbitMQ is killed in the middle of a produce", func(t *testing.T) { testProduceKilled(t, pair) })
	t.Run("RabbitMQ restarts under supervise", func(t *testing.T) { testRabbitMQRestarts(t, pair) })
	t.Run("Redis stops under a worker", func(t *testing.T) { testRedisStops(t, pair) })
	t.Run("a user who may do nothing", func(t *testing.T) { testPowerless(t, pair) })
	t.Run("no password shows", func(t *testing.T) { testNoPasswordShows(t, pair) })
}

func do(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// startAgain waits longer than anything else: a boot on a busy machine.
func startAgain(t *testing.T, pair *servers.Pair, s servers.Server) {
	t.Helper()
	do(t, "start", pair.Start(t.Context(), s))
}

func testProduceKilled(t *testing.T, pair *servers.Pair) {
	c := cornerAt(t, pair.AMQPURL, pair.RedisURL)
	r := c.start("produce", "--count", "1000000", "-o", "json")
	r.awaitLines(500, `"queued"`)
	do(t, "kill", pair.Kill(t.Context(), servers.RabbitMQ))
	r.wantStatus(exitFinding)
	lines := r.lines()
	var last tally
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Kind != "produced" {
		t.Fatalf("%v: %s", err, lines[len(lines)-1])
	}
	queued, unconfirmed := having(lines, `"kind":"queued"`), having(lines, `"kind":"unconfirmed"`)
	if last.Unknown == 0 || last.Confirmed != len(queued) || last.Unknown != len(unconfirmed) || last.Returned != 0 || last.Queued >= 1000000 {
		t.Errorf("%+v of %d queued, %d unconfirmed", last, len(queued), len(unconfirmed))
	}
	want := fmt.Sprintf("notifylab: stopped after %d of 1000000 events: ", last.Queued)
	if errors := r.errors(); len(errors) != 1 || !strings.HasPrefix(errors[0], want) {
		t.Errorf("stderr %q, want %s", errors, want)
	}
	startAgain(t, pair, servers.RabbitMQ)
}

func testRabbitMQRestarts(t *testing.T, pair *servers.Pair) {
	c := cornerAt(t, pair.AMQPURL, pair.RedisURL)
	g := newGate(t)
	// The gate has some in hand when the session ends.
	r := c.start("supervise", "push=1", "email=1", "--", "--provider-url", g.url, "--send-timeout", "50s", "--lease", "1m")
	r.awaitLines(2, "READY")
	c.run("produce", "--id", "before", "--count", "30").wantStatus(0)
	r.awaitLines(16, "RECEIVED push")
	r.awaitLines(16, "RECEIVED email")
	do(t, "stop", pair.Stop(t.Context(), servers.RabbitMQ))
	r.awaitLines(2, "DISCONNECTED")
	close(g.open)
	startAgain(t, pair, servers.RabbitMQ)
	within(t, 5*time.Second, func() { r.awaitLines(4, "READY") })
	c.run("produce", "--id", "after", "--count", "30").wantStatus(0)
	for _, channel := range []string{"push", "email"} {
		for _, id := range []string{"before", "after"} {
			for n := 1; n <= 30; n++ {
				r.awaitLine(fmt.Sprintf("SENT %s notif:%s-%d ", channel, id, n))
			}
		}
	}
	r.stop()
	for _, worker := range []string{"push-worker-1", "email-worker-1"} {
		// All that a worker says of the outage is one line, and that it is READY
		// again: it was not restarted.
		if n := len(having(r.lines(), worker+" ", "DISCONNECTED the session with RabbitMQ is over")); n != 1 {
			t.Errorf("%s says it %d times", worker, n)
		}
		if n := len(having(r.lines(), worker+" ", "READY")); n != 2 {
			t.Errorf("%s is READY %d times", worker, n)
		}
	}
	var other []string
	for _, line := range r.lines() {
		known := false
		for _, words := range []string{"READY", "RECEIVED", "SENT", "DISCONNECTED", "GIVEN BACK", "ended (exit 0)"} {
			known = known || strings.Contains(line, words)
		}
		if !known {
			other = append(other, line)
		}
	}
	if len(other) > 0 || r.errorText() != "" {
		t.Errorf("unexpected lines:\n%s\n%s", strings.Join(other, "\n"), r.errorText())
	}
}

func testRedisStops(t *testing.T, pair *servers.Pair) {
	c := cornerAt(t, pair.AMQPURL, pair.RedisURL)
	r := c.start("worker", "push", "--idempotency", "on", "--claim-lease", "on")
	r.awaitLine("READY on notify.push (idempotency on, claim-lease on)")
	c.run("produce", "--channel", "push", "--id", "first").wantStatus(0)
	r.awaitLine("DONE push notif:first")
	do(t, "stop", pair.Stop(t.Context(), servers.Redis))
	c.run("produce", "--channel", "push", "--id", "away", "--count", "3").wantStatus(0)
	r.awaitLine("DISCONNECTED Redis does not answer")
	startAgain(t, pair, servers.Redis)
	for n := 1; n <= 3; n++ {
		r.awaitLine(fmt.Sprintf("DONE push notif:away-%d", n))
	}
	r.stop()
	again := false
	for _, line := range r.lines() {
		again = again || strings.Contains(line, "RECONNECTED")
		if strings.Contains(line, "SENT push notif:away") && !again {
			t.Errorf("sent without a claim\n%s", r.all())
		}
	}
	for _, words := range []string{"DISCONNECTED", "RECONNECTED", "SENT push notif:away-1", "SENT push notif:away-2", "SENT push notif:away-3"} {
		if n := len(having(r.lines(), words)); n != 1 {
			t.Errorf("%d lines with %s\n%s", n, words, r.all())
		}
	}
}

func rabbitmqctl(t *testing.T, pair *servers.Pair, args ...string) {
	t.Helper()
	if out, err := pair.Rabbitmqctl(t.Context(), args...); err != nil {
		t.Fatalf("rabbitmqctl %v: %v\n%s", args, err, out)
	}
}

// The broker takes its password, and lets it declare nothing.
func testPowerless(t *testing.T, pair *servers.Pair) {
	rabbitmqctl(t, pair, "add_user", "u", secret)
	rabbitmqctl(t, pair, "set_permissions", "-p", "/", "u", "^$", "^$", "^$")
	c := cornerAt(t, strings.Replace(pair.AMQPURL, "guest:guest", "u:"+secret, 1), pair.RedisURL)
	for _, args := range []string{"produce", "worker push", "supervise push=1", "scenario crash"} {
		within(t, 6*time.Second, func() {
			r := c.run(strings.Fields(args)...)
			r.wantStatus(exitUnavailable)
			if len(having(r.errors(), "ACCESS_REFUSED")) != 1 || strings.Contains(r.all(), secret) {
				t.Errorf("%s\n%s", r.name, r.all())
			}
		})
	}
}

// The password of the broker is in no output and in no argument of a process.
func testNoPasswordShows(t *testing.T, pair *servers.Pair) {
	rabbitmqctl(t, pair, "set_permissions", "-p", "/", "u", ".*", ".*", ".*")
	u, err := url.Parse(pair.AMQPURL)
	do(t, "parse", err)
	// The default user of Redis has no password, and takes any.
	redis := strings.Replace(pair.RedisURL, "redis://", "redis://:"+secret+"@", 1)
	for name, address := range map[string]string{
		"right":     "amqp://u:" + secret + "@" + u.Host + "/",
		"wrong":     "amqp://u:wrong" + secret + "@" + u.Host + "/",
		"vhost":     "amqp://u:" + secret + "@" + u.Host + "/none",
		"away":      "amqp://u:" + secret + "@" + nowhere,
		"malformed": "amqp://u:" + secret + "@host:port",
	} {
		// Each with the words at which it is in full swing, if its servers let it.
		for args, swing := range map[string]string{
			"produce": "confirmed", "worker push --connect-timeout 1s": "READY", "supervise --connect-timeout 1s": "READY",
			"scenario dead-letter": "RETRY", "provider --listen 127.0.0.1:0": "", "scenario list": "", "servers down": "", "completion bash": "", "help produce": "",
		} {
			outputs := []string{"-v", "-o json"}
			if name != "right" {
				swing, outputs = "", []string{"-v -o json"}
			}
			for _, more := range outputs {
				t.Run(name+" "+args+" "+more, func(t *testing.T) {
					t.Parallel()
					wantNoSecret(cornerAt(t, address, redis), strings.Fields(args+" "+more), swing)
				})
			}
		}
	}
}

const secret = "S3cr3t"

func wantNoSecret(c corner, args []string, swing string) {
	c.t.Helper()
	r := c.start(args...)
	switch {
	case swing != "":
		r.await(swing, func() bool { return strings.Contains(strings.ToLower(r.text()), strings.ToLower(swing)) })
	case args[0] == "provider":
		r.await("first words", func() bool { return len(r.errors()) > 0 })
	}
	for pid, command := range c.processes() {
		if strings.Contains(command, secret) {
			c.t.Errorf("%s: argument of %s: %s", r.name, pid, command)
		}
	}
	if swing != "" || args[0] == "provider" {
		r.signal(syscall.SIGTERM)
	}
	r.wait()
	if strings.Contains(r.all(), secret) {
		c.t.Errorf("%s with %s\n%s", r.name, c.amqp, r.all())
	}
}
