package main

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"notifylab/internal/servers"
)

// The lines of Examples that this file runs, as far as they need no other ports.
func TestServers_examples_are_those_that_are_run_here(t *testing.T) {
	t.Parallel()
	var lines []string
	for _, l := range exampleLines(t) {
		if strings.HasPrefix(l, "notifylab servers ") {
			lines = append(lines, l)
		}
	}
	slices.Sort(lines)
	want := []string{
		"notifylab servers down", "notifylab servers run -- go test ./...", "notifylab servers up",
		"notifylab servers up --rabbit-nodes 3 --redis cluster",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got %q, want %q", lines, want)
	}
}

// What was not given comes from one place.
func TestURLs_not_given(t *testing.T) {
	t.Parallel()
	up := servers.Info{AMQPURL: "amqp://up", RedisURL: "redis://up"}
	for _, tt := range []struct {
		amqp, redis         string
		up                  servers.Info
		wantAMQP, wantRedis string
	}{
		{"", "", up, "amqp://up", "redis://up"},
		{"", "", servers.Info{}, defaultAMQP, defaultRedis},
		{"amqp://a", "", up, "amqp://a", defaultRedis},
		{"", "redis://r", up, defaultAMQP, "redis://r"},
		{"amqp://a", "redis://r", up, "amqp://a", "redis://r"},
	} {
		a := &app{amqpURL: tt.amqp, amqpGiven: tt.amqp != "", redisURL: tt.redis, redisGiven: tt.redis != ""}
		if a.orElse(tt.up); a.amqpURL != tt.wantAMQP || a.redisURL != tt.wantRedis {
			t.Errorf("%+v: got %s and %s", tt, a.amqpURL, a.redisURL)
		}
	}
}

func TestServers_up_and_down(t *testing.T) {
	t.Parallel()
	c := cornerAt(t, "", "")
	t.Cleanup(func() { c.run("servers", "down") })
	// Never the usual ports: this machine may have servers there.
	up := []string{"servers", "up", "--amqp-port", "0", "--redis-port", "0"}
	r := c.run(up...)
	r.wantStatus(0)
	env := r.lines()
	if len(env) != 2 || !strings.HasPrefix(env[0], "AMQP_URL=amqp://") || !strings.HasPrefix(env[1], "REDIS_URL=redis://") ||
		len(having(r.errors(), "starting a private RabbitMQ and Redis, about 8 s …")) != 1 || len(having(r.errors(), "ready after ")) != 1 {
		t.Fatal(r.all())
	}
	again := c.run(up...)
	again.wantStatus(0)
	if again.text() != r.text() || again.errorText() != "already up" {
		t.Errorf("the second up:\n%s", again.all())
	}
	object := c.run(append(up, "-o", "json")...)
	object.wantStatus(0)
	if want := fmt.Sprintf(`{"amqp_url":%q,"kind":"servers","redis_url":%q}`, strings.TrimPrefix(env[0], "AMQP_URL="), strings.TrimPrefix(env[1], "REDIS_URL=")); object.text() != want {
		t.Errorf("%s\nwant %s", object.all(), want)
	}
	for _, other := range [][]string{{"--redis", "cluster"}, {"--rabbit-nodes", "3"}, {"--amqp-port", "1"}, {"--redis-port", "1"}} {
		r := c.run(append([]string{"servers", "up"}, other...)...)
		r.wantStatus(exitUnavailable)
		if len(having(r.errors(), "notifylab: already up, but with ")) != 1 || r.text() != "" {
			t.Errorf("%q: %s", other, r.all())
		}
	}
	for _, c := range []corner{c.with(env...), c} { // told, and by itself
		p := c.run("produce")
		p.wantStatus(0)
		wantClosing(t, p, 1, 2, 0, 0)
	}
	for _, urls := range [][]string{{"AMQP_URL=amqp://" + nowhere, env[1]}, {env[0], "REDIS_URL=redis://" + nowhere}} {
		if r := c.with(urls...).run("queues"); r.wait() != exitUnavailable || len(having(r.errors(), nowhere)) != 1 {
			t.Errorf("with %s it asks others\n%s", urls, r.all())
		}
	}

	// Another pair can't have its ports.
	u, err := url.Parse(strings.TrimPrefix(env[0], "AMQP_URL="))
	if err != nil {
		t.Fatal(err)
	}
	other := cornerAt(t, "", "").run("servers", "up", "--amqp-port", u.Port(), "--redis-port", "0")
	other.wantStatus(exitUnavailable)
	if len(having(other.errors(), "notifylab servers up --amqp-port 0 --redis-port 0")) != 1 || other.text() != "" {
		t.Error(other.all())
	}

	// Up is not what has died.
	pair, err := servers.Running(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	redis := pair.Member(servers.Redis).Process
	if err := syscall.Kill(redis.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Redis is killed", func() string {
		if redis.Alive() {
			return "it lives"
		}
		return ""
	})
	r = c.run(up...)
	r.wantStatus(exitUnavailable)
	if got := r.errorText(); got != "notifylab: already up, but Redis has died\n  start them anew   notifylab servers down; notifylab servers up" {
		t.Error(got)
	}

	c.run("servers", "down").wantStatus(0)
	c.awaitNoProcess()
	r = c.run("servers", "down")
	r.wantStatus(exitFinding)
	if got := r.errorText(); got != "notifylab: no servers are up" {
		t.Error(r.all())
	}
}

func TestServers_run_passes_signals_on_and_ends_with_the_status(t *testing.T) {
	t.Parallel()
	c := cornerAt(t, "", "")
	script := `trap 'echo told; echo no more | cat; exit 7' TERM
		echo "$AMQP_URL $REDIS_URL"
		yes | head -n 1
		while :; do sleep 0.05; done`
	r := c.start("servers", "run", "--", "sh", "-c", script)
	r.awaitLine("amqp://guest:guest@127.0.0.1:", " redis://127.0.0.1:")
	r.awaitLine("y")
	r.signal(syscall.SIGTERM)
	r.wantStatus(7)
	if len(having(r.lines(), "told")) != 1 || len(having(r.errors(), "starting a private RabbitMQ and Redis, about 8 s … ready after ")) != 1 || len(r.errors()) != 1 {
		t.Error(r.all())
	}
	within(t, 10*time.Second, c.awaitNoProcess)
}

func TestServers_interrupted_while_they_start(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"servers up --amqp-port 0 --redis-port 0", "servers run -- true"} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			t.Run(args+" "+sig.String(), func(t *testing.T) {
				t.Parallel()
				c := cornerAt(t, "", "")
				r := c.start(strings.Fields(args)...)
				// The line ends when they are ready, or never: what can be seen of the
				// start is its processes.
				eventually(t, "nothing is started", func() string {
					if len(c.processes()) < 2 {
						return "yet"
					}
					return ""
				})
				r.signal(sig)
				r.wantStatus(128 + int(sig))
				if r.text() != "" || len(having(r.errors(), "notifylab:")) > 0 {
					t.Error(r.all())
				}
				within(t, 10*time.Second, c.awaitNoProcess)
			})
		}
	}
}
