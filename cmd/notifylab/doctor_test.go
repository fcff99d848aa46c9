package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"notifylab/internal/broker"
	"notifylab/internal/idem"
)

// examined runs the doctor and returns its symptoms, by what they are about.
func (c corner) examined(status int, args ...string) map[string]symptom {
	c.t.Helper()
	r := c.run(append([]string{"doctor", "-o", "json"}, args...)...)
	r.wantStatus(status)
	return r.symptoms()
}

func (r *running) symptoms() map[string]symptom {
	r.t.Helper()
	if r.errorText() != "" {
		r.t.Error(r.all())
	}
	all := map[string]symptom{}
	for _, o := range r.objects() {
		text := func(field string) string { return fmt.Sprint(o[field]) }
		if o["kind"] != "symptom" || len(o) != 5 {
			r.t.Errorf("got %v", o)
		}
		all[text("what")] = symptom{What: text("what"), Status: text("status"), Is: text("is"), Do: text("do")}
	}
	return all
}

// want compares one symptom: its status, what is said of it and what to do.
func (s symptom) want(t *testing.T, status, is, do string) {
	t.Helper()
	if s.Status != status || !strings.Contains(s.Is, is) || !strings.Contains(s.Do, do) || (do == "") != (s.Do == "") {
		t.Errorf("%s is %s, %q, do %q; want %s, %q, %q", s.What, s.Status, s.Is, s.Do, status, is, do)
	}
}

// noTools is a PATH on which there is no rabbitmqctl.
const noTools = "PATH=/nowhere"

func TestDoctor_all_is_well(t *testing.T) {
	t.Parallel()
	c := newCorner(t).with(noTools)
	for _, args := range []string{"", "--strict"} {
		all := c.examined(0, strings.Fields(args)...)
		all["lease"].want(t, fine, "10s for a send time-out of 5s", "")
		all["slot directory"].want(t, fine, c.dir+", where each worker locks a slot", "")
		all["Redis"].want(t, fine, ".", "")
		all["Redis eviction"].want(t, fine, "noeviction", "")
		all["Redis persistence"].want(t, fine, "appendonly yes, appendfsync everysec", "")
		all["clock"].want(t, fine, "from Redis's", "")
		all["RabbitMQ"].want(t, fine, ".", "")
		all["queues"].want(t, fine, "0 of 8 are there", "")
		for _, what := range []string{"alarms", "consumer time-out"} {
			all[what].want(t, unseen, "no rabbitmqctl on PATH; no management API at 127.0.0.1:15672", "")
		}
		if len(all) != 10 {
			t.Errorf("%d symptoms: %v", len(all), all)
		}
	}
	c.run("produce").wantStatus(0)
	c.examined(0)["queues"].want(t, fine, "4 of 8 are there", "")
	r := c.run("doctor", "--color", "always")
	r.wantStatus(0)
	if len(r.lines()) != 10 || len(having(r.lines(), "\x1b[32mok     \x1b")) != 8 || r.errorText() != "" {
		t.Errorf("%q", r.text())
	}
}

func TestDoctor_lease_and_slot_directory(t *testing.T) {
	t.Parallel()
	c := newCorner(t).with(noTools)
	c.examined(exitUnavailable, "--lease", "7s")["lease"].want(t, bad, "a lease of 7s is too short for a send time-out of 5s", "--lease 8s or a shorter --send-timeout")
	c.examined(0, "--lease", "7s", "--send-timeout", "4s")["lease"].want(t, fine, "7s for a send time-out of 4s", "")

	const do = "--state-dir DIRECTORY that belongs to you"
	file := filepath.Join(c.dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	place := func(dir string) symptom {
		r := c.launch(command(t, "doctor", "-o", "json", "--namespace", c.ns, "--state-dir", dir))
		r.wantStatus(exitUnavailable)
		for _, o := range r.objects() {
			if o["what"] == "slot directory" {
				return symptom{What: "slot directory", Status: fmt.Sprint(o["status"]), Is: fmt.Sprint(o["is"]), Do: fmt.Sprint(o["do"])}
			}
		}
		return symptom{}
	}
	place(file).want(t, bad, "not a directory", do)
	if os.Geteuid() == 0 { // only root can make a directory somebody else's
		foreign := filepath.Join(c.dir, "foreign")
		if err := os.MkdirAll(filepath.Join(foreign, "slots"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(filepath.Join(foreign, "slots"), 12345, 12345); err != nil {
			t.Fatal(err)
		}
		place(foreign).want(t, bad, "belongs to another user (uid 12345)", do)
	}
}

// taskforcesh/bullmq#921
func TestDoctor_Redis(t *testing.T) {
	t.Parallel()
	c, redis := newCorner(t).with(noTools).withRedis("--maxmemory-policy", "volatile-lru", "--appendonly", "no")
	all := c.examined(0)
	all["Redis eviction"].want(t, warning, "volatile-lru", "CONFIG SET maxmemory-policy noeviction: ")
	all["Redis persistence"].want(t, warning, "no append-only file", "appendonly yes")
	c.examined(exitUnavailable, "--strict")
	client := c.store()
	set := func(name, value string) {
		t.Helper()
		if err := client.ConfigSet(patience(t), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("maxmemory-policy", "noeviction")
	all = c.examined(exitUnavailable, "--strict")
	all["Redis eviction"].want(t, fine, "noeviction", "")
	all["Redis persistence"].want(t, warning, "", "appendonly yes")
	set("appendonly", "yes")
	set("appendfsync", "always")
	c.examined(0, "--strict")["Redis persistence"].want(t, fine, "appendfsync always", "")

	if err := client.Do(patience(t), "ACL", "SETUSER", "shy", "on", ">S3cr3t", "~*", "+@all", "-config").Err(); err != nil {
		t.Fatal(err)
	}
	shy := c
	shy.redis = "unix://shy:S3cr3t@" + filepath.Join(c.dir, "redis")
	all = shy.examined(0, "--strict")
	all["Redis eviction"].want(t, unseen, "CONFIG GET is not allowed", "")
	all["Redis persistence"].want(t, unseen, "CONFIG GET is not allowed", "")
	redis.kill()
	r := shy.run("doctor")
	r.wantStatus(exitUnavailable)
	if len(having(r.lines(), "bad      Redis ", "does not answer")) != 1 || len(having(r.lines(), "do: notifylab servers up (a private pair)")) != 1 || strings.Contains(r.all(), "S3cr3t") {
		t.Error(r.all())
	}
}

func TestFirstHint(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"notifylab servers up (a private pair)":                                            &idem.UnreachableError{Err: io.EOF},
		"--redis-url 'redis://a?addr=b:1' (name the others, too; or by $REDIS_URL)":        &idem.ClusterError{URL: "redis://a?addr=b:1"},
		"SSL_CERT_FILE=ca.pem (trust who has signed its certificate; macOS: the keychain)": idem.ErrTLS,
		"user and password are those of --amqp-url or $AMQP_URL":                           broker.ErrAccessRefused,
		"look into the server's log: it hung up":                                           io.EOF,
		"":                                                                                 io.ErrClosedPipe,
	} {
		if got := firstHint(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

func TestDoctor_servers_away(t *testing.T) {
	t.Parallel()
	c := cornerAt(t, "amqp://u:S3cr3t@"+nowhere, "redis://u:S3cr3t@"+nowhere).with(noTools)
	all := c.examined(exitUnavailable)
	all["Redis"].want(t, bad, "does not answer at "+nowhere+": connection refused", "notifylab servers up (a private pair)")
	all["RabbitMQ"].want(t, bad, "does not answer at "+nowhere+": connection refused", "notifylab servers up (a private pair)")
	all["lease"].want(t, fine, "10s", "")
	for _, s := range all {
		if strings.HasPrefix(s.Is, s.What) {
			t.Errorf("%s is %s: its name twice", s.What, s.Is)
		}
	}
	if len(all) != 4 || strings.Contains(fmt.Sprint(all), "S3cr3t") {
		t.Errorf("got %v", all)
	}
	shared := newCorner(t).with(noTools)
	shared.amqp = strings.Replace(shared.amqp, "guest:guest@", "guest:S3cr3t@", 1)
	shared.examined(exitUnavailable)["RabbitMQ"].want(t, bad, "ACCESS_REFUSED", "--amqp-url or $AMQP_URL")
}
