package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
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
	t.Run("Redis goes in the middle of a scenario", func(t *testing.T) { testScenarioWithoutRedis(t, pair) })
	t.Run("a server goes in the middle of a bench", func(t *testing.T) { testBenchWithout(t, pair) })
	t.Run("workers are there before RabbitMQ is", func(t *testing.T) { testWorkersFirst(t, pair) })
	t.Run("an api that has lost twenty connections sees an alarm come and go", func(t *testing.T) { testAlarmAfterCuts(t, pair) })
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

// It says which, soon, whatever it waits for: nothing but the workers' end would tell it.
func testBenchWithout(t *testing.T, pair *servers.Pair) {
	for _, s := range []servers.Server{servers.Redis, servers.RabbitMQ} {
		c := cornerAt(t, pair.AMQPURL, pair.RedisURL)
		r := c.start("bench", "--only", "workers", "--workers", "2", "--rounds", "1000")
		c.awaitWorkers(2)
		do(t, "kill", pair.Kill(t.Context(), s))
		killed := time.Now()
		r.wantStatus(exitUnavailable)
		const patience = 25 * time.Second // less than that of bench with its workers
		if took := time.Since(killed); took > patience {
			t.Errorf("%s killed: it took %v", s, took)
		}
		if len(having(r.errors(), "notifylab: "+string(s)+" does not answer at 127.0.0.1:")) != 1 {
			t.Errorf("%s killed:\n%s", s, r.all())
		}
		c.awaitNoProcess()
		startAgain(t, pair, s)
		c.run("reset", "--yes").wantStatus(0)
	}
}

func testProduceKilled(t *testing.T, pair *servers.Pair) {
	c := cornerAt(t, pair.AMQPURL, pair.RedisURL)
	r := c.start("produce", "--count", "1000000", "-o", "json")
	r.awaitLines(500, `"queued"`)
	do(t, "kill", pair.Kill(t.Context(), servers.RabbitMQ))
	r.wantStatus(exitFinding)
	lines := r.lines()
	var last tally
	if err := json.Unmarshal([]byte(r.lastLine()), &last); err != nil || last.Kind != "produced" {
		t.Fatalf("%v: %s", err, r.lastLine())
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
	if len(other) > 0 || len(r.complaints()) > 0 {
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

// A run that loses a server can't be judged, which is neither a failure nor success,
// and says so in its last line whatever else goes wrong.
// (datacontract/datacontract-cli#1179, istio/istio#9859)
func testScenarioWithoutRedis(t *testing.T, pair *servers.Pair) {
	c := cornerAt(t, pair.AMQPURL, pair.RedisURL)
	var r *running
	// It takes as long as it may. On a busy machine it may be over before Redis is
	// killed, by its time-out or by itself: then it is played again.
	for i, timeout := range []time.Duration{8 * time.Second, 30 * time.Second, 90 * time.Second} {
		if i > 0 {
			startAgain(t, pair, servers.Redis)
		}
		began := time.Now()
		r = c.start("scenario", "dead-letter", "-o", "json", "--timeout", timeout.String())
		r.await("retry", func() bool { return len(having(r.lines(), `"kind":"retry"`)) > 0 || r.over() })
		do(t, "kill", pair.Kill(t.Context(), servers.Redis))
		inTime := time.Since(began) < timeout/2
		if r.wait() != exitOK && inTime {
			break
		}
	}
	r.wantStatus(exitInconclusive)
	all := r.objects()
	if v := all[len(all)-1]; v["kind"] != "verdict" || v["status"] != "inconclusive" {
		t.Errorf("the last line is %v", v)
	}
	told := having(r.errors(), "notifylab: namespace ", " is not cleaned up: ", "connection refused")
	_, mend, _ := strings.Cut(r.errorText(), "delete what is left of it   notifylab ")
	if len(r.errors()) != 2 || len(told) != 1 || !strings.HasPrefix(mend, "reset --namespace ") {
		t.Error(r.errorText())
	}
	startAgain(t, pair, servers.Redis)
	c.run(strings.Fields(mend)...).wantStatus(exitOK)
}

// Who is started first waits, says so once, and works when the broker comes.
// (docker-library/rabbitmq#326, ssl-hep/ServiceX#114)
func testWorkersFirst(t *testing.T, pair *servers.Pair) {
	do(t, "stop", pair.Stop(t.Context(), servers.RabbitMQ))
	c := cornerAt(t, pair.AMQPURL, pair.RedisURL)
	r := c.start("supervise", "push=2", "--connect-timeout", "5m") // a boot may take longer than 30 s
	r.awaitError("RabbitMQ", "; waiting for up to 5m")
	startAgain(t, pair, servers.RabbitMQ)
	r.awaitLines(2, "READY")
	c.run("produce", "--channel", "push", "--id", "n").wantStatus(0)
	r.awaitLine("SENT push notif:n")
	r.stop()
	if len(having(r.errors(), "RabbitMQ")) != 1 || len(r.complaints()) > 0 || len(having(r.lines(), "RESTART")) > 0 {
		t.Error(r.all())
	}
}

// What listens for the broker's alarms is gone with its connection: after twenty cuts
// as much goes on in the api as before, and an alarm that is over holds nobody back.
// (wagslane/go-rabbitmq#216, #219)
func testAlarmAfterCuts(t *testing.T, pair *servers.Pair) {
	network := newHeldNetwork(t, pair.AMQPURL)
	c := cornerAt(t, network.url, pair.RedisURL)
	api, address := c.startAPI("--listen", "127.0.0.1:0")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(patience(t), method, "http://"+address+path, strings.NewReader(body))
		do(t, "request", err)
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		do(t, "ask", err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		do(t, "read", err)
		return res.StatusCode, string(text)
	}
	until := func(status int, says string) {
		t.Helper()
		eventually(t, fmt.Sprint("no ", status), func() string {
			got, text := ask("POST", "/api/notify", "{}")
			if got != status || !strings.Contains(text, says) {
				return text
			}
			return ""
		})
	}
	goroutines := func() (n int) {
		_, text := ask("GET", "/metrics", "")
		for line := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(line, "go_goroutines "); ok {
				fmt.Sscan(rest, &n)
			}
		}
		return n
	}
	connected := func() {
		until(202, "")
		if status, text := ask("GET", "/api/lab/queues", ""); status != 200 {
			t.Error(text)
		}
	}
	connected()
	before := goroutines()
	for range 20 {
		network.cut()
		eventually(t, "it does not look", func() string {
			_, text := ask("GET", "/api/lab/queues", "")
			if !strings.Contains(text, "notify.push") {
				return text
			}
			return ""
		})
		until(202, "")
	}
	rabbitmqctl(t, pair, "set_vm_memory_high_watermark", "0.0000001")
	until(503, "the broker blocks publishers: low on memory")
	rabbitmqctl(t, pair, "set_vm_memory_high_watermark", "0.4")
	connected()
	eventually(t, "more goes on than before", func() string {
		if n := goroutines(); n > before+5 {
			return fmt.Sprintf("%d goroutines, %d before", n, before)
		}
		return ""
	})
	api.stop()
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
