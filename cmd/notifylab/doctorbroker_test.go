package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
	"notifylab/internal/servers"
)

func TestDoctor_queue_with_other_arguments(t *testing.T) {
	t.Parallel()
	c := newCorner(t).with(noTools)
	conn := c.connection()
	classic := broker.Topology{Names: c.names(), Channels: []notify.Channel{notify.Email}, Type: broker.Classic}
	if err := conn.Declare(patience(t), classic); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Delete(context.Background(), classic.QueueNames()...) })
	queue := c.ns + ".email.dlq"
	c.examined(exitUnavailable)["queues"].want(t, bad, "queue "+queue+" exists with another x-queue-type: classic there, quorum wanted", "rabbitmqctl delete_queue "+queue)
	c.examined(0, "--queue-type", "classic")["queues"].want(t, fine, "2 of 8 are there", "")
	if all := c.look("queue", "queues"); len(all) != 0 {
		t.Errorf("the doctor has noted %v", all)
	}
	if n := c.ready(c.ns + ".notify.push"); n != -1 {
		t.Error("the doctor has made a queue")
	}
}

// What only the broker's own tools show: by rabbitmqctl, and by the management API.
func TestDoctor_inside_the_broker(t *testing.T) {
	t.Parallel()
	c := cornerAt(t, "", "").with(noTools)
	up := newCorner(t) // with a PATH; it is awaited after the servers are down
	up.dir = c.dir
	t.Cleanup(func() { c.run("servers", "down") })
	r := up.run("servers", "up", "--amqp-port", "0", "--redis-port", "0")
	r.wantStatus(0)
	c = c.with(r.lines()...)
	pair, err := servers.Running(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	eval := func(format string, args ...any) {
		t.Helper()
		if out, err := pair.Rabbitmqctl(patience(t), "eval", fmt.Sprintf(format, args...)); err != nil {
			t.Fatal(out, err)
		}
	}
	// rabbitmqctl has 30 s and the management API has 3, which can be too few for a busy
	// machine: then it is asked again.
	examined := func(c corner, tooSlow string, status int, args ...string) (all map[string]symptom) {
		t.Helper()
		eventually(t, "it is not seen", func() string {
			r := c.run(append([]string{"doctor", "-o", "json"}, args...)...)
			r.wait()
			all = r.symptoms()
			if s := all["alarms"]; s.Status == unseen && strings.Contains(s.Is, tooSlow) {
				return s.Is
			}
			r.wantStatus(status)
			return ""
		})
		return all
	}
	const killed = "rabbitmqctl: no answer within 30s"
	all := examined(c, killed, 0, "--strict")
	all["alarms"].want(t, fine, "none", "")
	all["consumer time-out"].want(t, fine, "30m", "")

	port := listenable(t)
	eval(`ok = file:write_file(%q, "[rabbitmq_management]."), application:set_env(rabbitmq_management, tcp_config, [{ip, "127.0.0.1"}, {port, %s}]), rabbit_plugins:ensure(%q).`,
		filepath.Join(pair.Dir, "run", "plugins"), port, filepath.Join(pair.Dir, "run", "plugins"))
	management, silence := []string{"--management-url", "http://127.0.0.1:" + port}, "no management API at 127.0.0.1:"+port
	far := c // knows nothing of the pair but its addresses
	far.dir = t.TempDir()
	all = examined(far, silence, 0, append(management, "--strict")...)
	all["alarms"].want(t, fine, "none", "")
	all["consumer time-out"].want(t, unseen, "the management API does not tell", "")
	examined(far, silence, 0, "--management-url", "http://guest:S3cr3t@127.0.0.1:"+port)["alarms"].want(t, unseen, "the management API at 127.0.0.1:"+port+" answers 401", "")

	eval("application:set_env(rabbit, consumer_timeout, 15000), vm_memory_monitor:set_vm_memory_high_watermark(0.00001).")
	eventually(t, "no alarm", func() string { // the broker looks now and then
		if out, err := pair.Rabbitmqctl(patience(t), "eval", "rabbit_alarm:get_alarms()."); err != nil || !strings.Contains(out, "memory") {
			return fmt.Sprint(out, err)
		}
		return ""
	})
	all = examined(c, killed, exitUnavailable)
	all["alarms"].want(t, bad, "memory: publishers are blocked", "free memory or disk")
	all["consumer time-out"].want(t, warning, "15s", "more than 19s")
	examined(far, silence, exitUnavailable, management...)["alarms"].want(t, bad, "memory: publishers are blocked", "free memory or disk")
	r = c.run("servers", "down")
	r.wantStatus(0)
}

// A machine on which no Erlang runs is left as it was: rabbitmqctl would start epmd,
// which stays and would be seen as a process of the corner.
func TestDoctor_starts_no_epmd(t *testing.T) {
	t.Parallel()
	port := listenable(t)
	found, err := servers.Find()
	if err != nil {
		t.Fatal(err)
	}
	c := newCorner(t).with("ERL_EPMD_PORT="+port, "PATH="+filepath.Dir(found.Rabbitmqctl)+":"+os.Getenv("PATH"))
	c.examined(0)["alarms"].want(t, unseen, "no epmd at localhost:"+port, "")
}

func listenable(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}

// What no server here can be made to be.
func TestDoctor_symptoms(t *testing.T) {
	t.Parallel()
	redisSymptom(idem.Health{Version: "6.2.7", Major: 6}).want(t, bad, "6.2.7", "Redis 7.0 or newer")
	redisSymptom(idem.Health{Version: "8.0.0", Major: 8}).want(t, fine, "8.0.0", "")
	clockSymptom(2*time.Second).want(t, fine, "2s from Redis's", "")
	clockSymptom(-3*time.Second).want(t, warning, "-3s from Redis's", "synchronise")
	rabbitSymptom("RabbitMQ 4.0.5").want(t, fine, "4.0.5", "")
	rabbitSymptom("RabbitMQ 3.10.0").want(t, fine, "3.10.0", "")
	rabbitSymptom("RabbitMQ 3.9.29").want(t, bad, "3.9.29", "RabbitMQ 3.10 or newer")
	rabbitSymptom("RabbitMQ 2.10").want(t, bad, "2.10", "RabbitMQ 3.10 or newer")
	rabbitSymptom("LavinMQ 2.0").want(t, warning, "LavinMQ 2.0", "another broker")
	w := workerFlags{lease: 10 * time.Second, sendTimeout: 5 * time.Second}
	for _, none := range []string{"undefined", "infinity"} {
		consumerTimeout(none, w).want(t, fine, "none", "")
	}
	consumerTimeout("19000", w).want(t, fine, "19s", "")
	consumerTimeout("18999", w).want(t, warning, "18.999s", "more than 19s")
	for text, fits := range map[string]bool{
		"{[],1800000,[5672]}": true, "{[disk,memory],undefined,[5672,5671]}": true, "{[],infinity,[]}": true, "Error: x": false, "{[]}": false,
	} {
		if insideAnswer.MatchString(text) != fits {
			t.Errorf("%s: want %t", text, fits)
		}
	}
}
