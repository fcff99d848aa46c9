package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"notifylab/internal/servers"
	"notifylab/internal/servers/serverstest"
)

// Everything finds its way to a node that answers, while the first of each is there
// and when it has died.
func TestServers_up_of_clusters(t *testing.T) {
	serverstest.NeedsClusters(t)
	c := cornerAt(t, "", "")
	t.Cleanup(func() { c.run("servers", "down").wantStatus(0) })
	r := c.run("servers", "up", "--rabbit-nodes", "3", "--redis", "cluster", "--amqp-port", "0", "--redis-port", "0")
	r.wantStatus(0)
	env := r.lines()
	if len(env) != 2 || strings.Count(env[0], "amqp://") != 3 || strings.Count(env[1], "addr=") != 5 ||
		len(having(r.errors(), "starting a private RabbitMQ of 3 nodes and Redis Cluster, about 15 s …")) != 1 {
		t.Fatal(r.all())
	}
	one, _, _ := strings.Cut(strings.TrimPrefix(env[1], "REDIS_URL="), "?")
	for _, args := range [][]string{{"settings"}, {"scenario", "crash"}, {"worker", "push"}, {"expire", "--direct"}} {
		r := c.with(env[0], "REDIS_URL="+one).run(args...)
		r.wantStatus(exitUnavailable)
		if len(having(r.errors(), "is a Cluster, but --redis-url names one node of it")) != 1 || len(having(r.errors(), "--redis-url 'redis://", "?addr=")) != 1 {
			t.Error(r.all())
		}
	}
	c.with(env[0], "REDIS_URL="+one).examined(exitUnavailable)["Redis"].want(t, bad, "is a Cluster, but --redis-url names one node of it", "--redis-url 'redis://")
	c.run("settings").wantStatus(0) // it finds them by itself
	c = c.with(env...)
	pair, err := servers.Running(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	for what, args := range map[string][]string{
		"produce":  {"produce"},
		"settings": {"settings", "set", "idempotency=on", "claim-lease=on"},
		"records":  {"records"},
		"queues":   {"queues"},
		"play":     {"scenario", "claim-lease"},
	} {
		if r := c.run(args...); r.wait() != 0 {
			t.Errorf("%s: %s", what, r.all())
		}
	}
	well := func() {
		t.Helper()
		all := c.examined(0)
		all["alarms"].want(t, fine, "none", "")
		all["Redis nodes"].want(t, fine, "6 of 6 answer, each master has a replica", "")
		all["Redis persistence"].want(t, fine, "appendonly yes, appendfsync everysec", "")
	}
	well()
	c.examined(0)["RabbitMQ nodes"].want(t, fine, "3 of 3 answer", "")
	worker := c.start("worker", "push")
	worker.awaitLine("SENT push")
	if err := syscall.Kill(pair.Member(servers.RabbitMQ).Process.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	worker.awaitLine("DISCONNECTED")
	// Until the queues have leaders again the broker refuses what is published.
	ctx := patience(t)
	for r = c.run("produce", "--channel", "push"); r.wait() != 0; r = c.run("produce", "--channel", "push") {
		if ctx.Err() != nil || len(having(r.lines(), "UNKNOWN push")) != 1 {
			t.Fatal(r.all())
		}
	}
	_, id, _ := strings.Cut(having(r.lines(), "QUEUED push")[0], "notif:")
	worker.awaitLine("SENT push notif:" + strings.Fields(id)[0])
	well()
	addr := fmt.Sprintf("127.0.0.1:%d", pair.Member(servers.RabbitMQ).Port)
	c.examined(exitUnavailable, "--strict")["RabbitMQ nodes"].want(t, warning, "2 of 3 answer; does not answer at "+addr+": connection refused", "start it again")
	worker.signal(syscall.SIGTERM)
	worker.wantStatus(0)

	if err := syscall.Kill(pair.Member(servers.Redis).Process.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	addr = fmt.Sprintf("127.0.0.1:%d", pair.Member(servers.Redis).Port)
	eventually(t, "the others miss a dead node of Redis", func() string {
		r := c.run("doctor", "-o", "json")
		r.wait()
		s := r.symptoms()["Redis nodes"]
		if s.Status != warning || !strings.Contains(s.Is, "5 of 6 answer; "+addr+" does not; 127.0.0.1:") || !strings.HasSuffix(s.Is, " has no replica") {
			return r.all()
		}
		return ""
	})
}

func TestServers_how_many(t *testing.T) {
	t.Parallel()
	c := cornerAt(t, "", "")
	for want, args := range map[string][]string{
		"--rabbit-nodes 0: from 1 to 7":         {"--rabbit-nodes", "0"},
		"--rabbit-nodes 8: from 1 to 7":         {"--rabbit-nodes", "8"},
		`--redis "sentinel": single or cluster`: {"--redis", "sentinel"},
	} {
		for _, command := range [][]string{{"servers", "up"}, {"servers", "run"}} {
			args := append(append([]string{}, command...), args...)
			if command[1] == "run" {
				args = append(args, "--", "true")
			}
			r := c.run(args...)
			r.wantStatus(exitUsage)
			if len(having(r.errors(), want)) != 1 {
				t.Errorf("%q: %s", args, r.all())
			}
		}
	}
}
