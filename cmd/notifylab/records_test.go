package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRecords(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	if r := c.run("records"); r.wait() != 0 || r.text() != "no records" {
		t.Error(r.all())
	}
	if r := c.run("keys", "-o", "json"); r.wait() != 0 || r.text() != "" {
		t.Error(r.all())
	}
	w := c.start("worker", "push", "--idempotency", "on", "--claim-lease", "on")
	w.awaitLine("READY")
	c.run("produce", "--channel", "push", "--id", "n1").wantStatus(0)
	c.run("produce", "--channel", "push", "--id", "n2").wantStatus(0)
	w.awaitLines(2, "DONE")
	w.stop()
	if err := c.store().Set(patience(t), c.key("notification:n3:email:8"), "claimed b/1:2/3/life nonce f", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	all := c.look("id", "records")
	n1, n3 := all["n1"], all["n3"]
	if len(all) != 3 || n1["kind"] != "record" || n1["key"] != c.key("notification:n1:push:7") || n1["state"] != "done" || n1["channel"] != "push" ||
		n1["user"] != "7" || n1["slot"] != 1.0 || !strings.HasSuffix(fmt.Sprint(n3["owner"]), "/3/life") || n3["state"] != "claimed" ||
		n3["ttl_ms"].(float64) > 3_600_000 || n1["ttl_ms"].(float64) < 23*3_600_000 {
		t.Errorf("got %v", all)
	}
	for args, want := range map[string]string{
		"--id n1": "n1", "--state claimed": "n3", "--state done": "n1 n2", "--state pending": "", "--id n": "", "--id n* --state done": "", "--id n2 --state done": "n2", "--id n2 --state claimed": "",
	} {
		var got []string
		for id := range c.look("id", append([]string{"records"}, strings.Fields(args)...)...) {
			got = append(got, id)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
	r := c.run("records", "--state", "claimed")
	r.wantStatus(0)
	if lines := r.lines(); len(lines) != 2 || strings.Join(strings.Fields(lines[0]), " ") != "key state worker for another" ||
		!strings.HasPrefix(lines[1], "notification:n3:email:8  claimed  email-worker-3  5") { // 59m59s, or, on a busy machine, less
		t.Error(r.all())
	}
}

// What a command sends to Redis is SCAN, and never KEYS, which holds everyone up.
func TestRecords_and_reset_use_SCAN(t *testing.T) {
	t.Parallel()
	c, _ := newCorner(t).withRedis()
	if err := c.store().Set(patience(t), c.key("notification:n3:email:8"), "claimed b/1:2/3/life nonce f", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	c.run("records").wantStatus(0)
	c.run("records", "--id", "n3").wantStatus(0)
	c.run("reset", "--yes").wantStatus(0)
	stats := c.store().Info(patience(t), "commandstats").Val()
	if !strings.Contains(stats, "cmdstat_scan:") || strings.Contains(stats, "cmdstat_keys:") {
		t.Error(stats)
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	c, other := newCorner(t), newCorner(t)
	for _, c := range []corner{c, other} {
		c.run("produce").wantStatus(0)
		c.run("settings", "set", "idempotency=on").wantStatus(0)
		if err := c.store().Set(patience(t), c.key("notification:n3:email:8"), "claimed b/1:2/3/life nonce f", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	w := c.start("worker", "email")
	w.awaitLine("SENT")
	eventually(t, "not noted", func() string { // the worker does so in passing
		n, err := c.store().Exists(patience(t), c.key("lab:journal"), c.key("lab:workers")).Result()
		if all := c.look("queue", "queues"); len(all) != 6 || n != 2 {
			return fmt.Sprint(all, n, err)
		}
		return ""
	})
	r := c.run("reset", "--yes", "-o", "json")
	r.wantStatus(0)
	// Work and dead letters of two channels, and email's retries. Of keys it is at
	// least settings, record, journal, queues, workers.
	o := r.objects()
	if len(o) != 1 || o[0]["kind"] != "reset" || o[0]["queues"] != 6.0 || o[0]["keys"].(float64) < 5 {
		t.Errorf("got %v", o)
	}
	if all := c.look("name", "settings"); all["idempotency"]["on"] != false {
		t.Errorf("settings: %v", all)
	}
	if all := c.look("id", "records"); len(all) != 0 {
		t.Errorf("records: %v", all)
	}
	if all := other.look("queue", "queues"); len(all) != 4 || other.look("name", "settings")["idempotency"]["on"] != true || len(other.look("id", "records")) != 1 {
		t.Errorf("the other namespace has %v", all)
	}
	// A worker whose queue was deleted makes it again, notes it, and goes on.
	w.awaitLines(2, "READY")
	c.run("produce", "--channel", "email", "--id", "after").wantStatus(0)
	w.awaitLine("SENT email notif:after")
	eventually(t, "queues", func() string { // the reset may have forgotten what it noted just before
		if all := c.look("queue", "queues"); len(all) != 4 || all[c.ns+".email.dlq"] == nil {
			return fmt.Sprint(all)
		}
		return ""
	})
	w.stop()
	r = c.run("reset", "--yes")
	r.wantStatus(0)
	if !strings.HasPrefix(r.text(), "4 queues and ") {
		t.Error(r.all())
	}
	r = c.run("reset", "--yes")
	r.wantStatus(0)
	if r.text() != "0 queues and 0 keys deleted" {
		t.Error(r.all())
	}
}
