package idem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/notify"
)

// put writes a record of state for a notification, as a worker would.
func put(t testing.TB, c Client, ns notify.Namespace, id string, channel notify.Channel, user string, s State, ttl time.Duration) string {
	t.Helper()
	key := ns.Key(notify.Key(notify.Notification{ID: id, User: user}, channel))
	r := Record{State: s, Owner: Owner{Boot: "b", File: "1:2", Slot: 3, Life: "l"}, Nonce: "n", Fingerprint: "f"}
	if err := c.Set(soon(t), key, r.String(), ttl).Err(); err != nil {
		t.Fatal(err)
	}
	return key
}

func keysOf(records []Listed) []string {
	var keys []string
	for _, l := range records {
		keys = append(keys, l.Key)
	}
	return keys
}

func TestList(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, ns := l.redis, l.ns
	list := func(id string, want ...string) []Listed {
		t.Helper()
		got, err := List(soon(t), c, ns, id)
		if err != nil || !slices.Equal(keysOf(got), want) {
			t.Errorf("%q: got %q, %v, want %q", id, keysOf(got), err, want)
		}
		return got
	}
	list("")
	done := put(t, c, ns, "a*", notify.Push, "7", Done, time.Hour)
	pending := put(t, c, ns, "a1", notify.Email, "8", Pending, time.Hour)
	kept := put(t, c, ns, "a2", notify.Push, "7", Claimed, 0) // by hand: workers' all end
	for key, value := range map[string]string{
		"notification:a3:push:7":   "something else",
		"notification:a3:push:7:x": "pending b/1:2/3/l n f",
		"notification:a3":          "pending b/1:2/3/l n f",
		"other:a3:push:7":          "pending b/1:2/3/l n f",
	} {
		if err := c.Set(soon(t), ns.Key(key), value, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.RPush(soon(t), ns.Key("notification:a4:push:7"), "x").Err(); err != nil {
		t.Fatal(err)
	}
	put(t, c, ns+"x", "a1", notify.Push, "7", Done, time.Minute) // a namespace that begins alike
	all := list("", done, pending, kept)
	list("a*", done) // a name is no pattern
	list("a", []string{}...)
	list("a1", pending)
	if len(all) != 3 {
		return
	}
	if got := all[1]; got.ID != "a1" || got.Channel != "email" || got.User != "8" || got.Record.State != Pending || got.Record.Owner.Slot != 3 ||
		got.TTL <= 0 || got.TTL > time.Hour || all[2].TTL != 0 {
		t.Errorf("got %+v", all[1:])
	}
}

// Looking holds nobody up: a page at a time, and a page is one round trip.
func TestList_scans(t *testing.T) {
	t.Parallel()
	addr := startRedis(t)
	c := dial(t, "redis://"+addr)
	const n = 2500
	_, err := c.Pipelined(soon(t), func(p redis.Pipeliner) error {
		for i := range n {
			p.Set(soon(t), fmt.Sprintf("notification:n%d:push:7", i), "done b/1:2/3/l n f", time.Hour)
			p.Set(soon(t), fmt.Sprintf("other:%d", i), "x", 0)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ConfigResetStat(soon(t)).Err(); err != nil {
		t.Fatal(err)
	}
	all, err := List(soon(t), c, "", "")
	if err != nil || len(all) != n {
		t.Fatalf("%d of %d, %v", len(all), n, err)
	}
	if forgotten, err := Forget(soon(t), c, ""); forgotten != n || err != nil {
		t.Errorf("%d of %d forgotten, %v", forgotten, n, err)
	}
	if left := c.DBSize(soon(t)).Val(); left != n {
		t.Errorf("%d keys are left, want the others' %d", left, n)
	}
	stats := c.Info(soon(t), "commandstats").Val()
	if strings.Contains(stats, "cmdstat_keys:") || !strings.Contains(stats, "cmdstat_scan:") {
		t.Errorf("want SCAN and no KEYS:\n%s", stats)
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	addr := startRedis(t)
	c := dial(t, "redis://"+addr)
	mine := []string{
		"notification:n1:push:7", "crashes:notification:n1:push:7", "crash:n1:push:after-claim", "lab:flags", "lab:journal",
		"lab:worker:b/1:2/3", "passes:group:g",
	}
	others := []string{"notification:n1", "crash:report", "crashes:today", "session:1", "k7f30:lab:flags", "label:x"}
	fill := func(ns notify.Namespace) {
		t.Helper()
		for i, key := range slices.Concat(mine, others) {
			err := c.RPush(soon(t), ns.Key(key), i).Err()
			if key == "lab:flags" { // whatever its type
				err = errors.Join(c.Del(soon(t), ns.Key(key)).Err(), c.HSet(soon(t), ns.Key(key), "x", "y").Err())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	fill("")
	fill("k7f3")
	want := len(mine)
	for _, ns := range []notify.Namespace{"k7f3", ""} {
		if n, err := Forget(soon(t), c, ns); n != want || err != nil {
			t.Errorf("%q: %d forgotten, %v, want %d", ns, n, err, want)
		}
		for _, key := range mine {
			if c.Exists(soon(t), ns.Key(key)).Val() != 0 {
				t.Errorf("%s is left", ns.Key(key))
			}
		}
		for _, key := range others {
			if c.Exists(soon(t), ns.Key(key)).Val() != 1 {
				t.Errorf("%s is gone", ns.Key(key))
			}
		}
	}
}

// On a Cluster keys live apart: every master is asked.
func TestList_of_a_Cluster(t *testing.T) {
	t.Parallel()
	addrs := startCluster(t)
	c := dial(t, "redis://"+addrs[0]+"?addr="+addrs[0]) // it asks for the others
	var want []string
	for i := range 60 {
		want = append(want, put(t, c, "k7f3", fmt.Sprint("n", i), notify.Push, "7", Done, time.Hour))
	}
	slices.Sort(want)
	for _, addr := range addrs { // it is worth a test only if both have some
		if n := dial(t, "redis://"+addr).DBSize(soon(t)).Val(); n == 0 || n == 60 {
			t.Fatalf("%s has %d keys of 60", addr, n)
		}
	}
	got, err := List(soon(t), c, "k7f3", "")
	if err != nil || !slices.Equal(keysOf(got), want) {
		t.Errorf("got %d of %d, %v", len(got), len(want), err)
	}
	if n, err := Forget(soon(t), c, "k7f3"); n != 60 || err != nil {
		t.Errorf("%d forgotten, %v", n, err)
	}
	if h, err := Examine(soon(t), c); h.Major < 7 || err != nil {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestExamine(t *testing.T) {
	t.Parallel()
	addr := startRedis(t, "--maxmemory-policy", "volatile-lru", "--appendonly", "yes", "--appendfsync", "always")
	c := dial(t, "redis://"+addr)
	h, err := Examine(soon(t), c)
	if err != nil || h.Eviction != "volatile-lru" || h.AppendOnly != "yes" || h.AppendFsync != "always" || h.Major < 7 || h.Skew.Abs() > time.Minute {
		t.Errorf("%+v, %v", h, err)
	}
	if err := c.Do(soon(t), "ACL", "SETUSER", "shy", "on", ">pw", "~*", "+@all", "-config").Err(); err != nil {
		t.Fatal(err)
	}
	h, err = Examine(soon(t), dial(t, "redis://shy:pw@"+addr))
	if err != nil || h.Eviction != "" || h.AppendOnly != "" || h.Version == "" {
		t.Errorf("without CONFIG: %+v, %v", h, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Examine(ctx, c); err == nil {
		t.Error("no error, and it was not asked")
	}
}
