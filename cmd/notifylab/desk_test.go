package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"notifylab/internal/broker"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
)

// objects reads standard output as JSON objects, a line each.
func (r *running) objects() []map[string]any {
	r.t.Helper()
	var all []map[string]any
	for _, l := range r.lines() {
		var o map[string]any
		if err := json.Unmarshal([]byte(l), &o); err != nil {
			r.t.Fatalf("%s: %v: %s", r.name, err, l)
		}
		all = append(all, o)
	}
	return all
}

// look runs a command with -o json, which has to end well, and returns its objects
// by one of their fields.
func (c corner) look(by string, args ...string) map[string]map[string]any {
	c.t.Helper()
	r := c.run(append(args, "-o", "json")...)
	r.wantStatus(0)
	all := map[string]map[string]any{}
	for _, o := range r.objects() {
		all[fmt.Sprint(o[by])] = o
	}
	return all
}

// store is a client of the test's own of the corner's Redis.
func (c corner) store() idem.Client {
	c.t.Helper()
	client, err := idem.Dial(c.redis, 4)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { client.Close() })
	return client
}

func (c corner) key(name string) string { return notify.Namespace(c.ns).Key(name) }

// A bareRedis is one of the test's own, at a socket in its directory, so that it can
// be set up, stopped and ended without harm to others.
type bareRedis struct {
	c    corner
	args []string
	cmd  *exec.Cmd
	once *sync.Once
}

// withRedis puts the corner on a Redis of its own.
func (c corner) withRedis(args ...string) (corner, *bareRedis) {
	c.t.Helper()
	c.redis = "unix://" + filepath.Join(c.dir, "redis")
	b := &bareRedis{c: c, args: args}
	b.start()
	c.t.Cleanup(b.kill)
	return c, b
}

func (b *bareRedis) start() {
	b.c.t.Helper()
	b.once = new(sync.Once)
	b.cmd = exec.Command("redis-server", append([]string{"--port", "0", "--unixsocket", filepath.Join(b.c.dir, "redis"), "--save", "", "--dir", b.c.dir}, b.args...)...)
	if err := b.cmd.Start(); err != nil {
		b.c.t.Fatal(err)
	}
	client := b.c.store()
	eventually(b.c.t, "Redis does not answer", func() string {
		if err := client.Ping(patience(b.c.t)).Err(); err != nil {
			return err.Error()
		}
		return ""
	})
}

func (b *bareRedis) kill() {
	b.once.Do(func() {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait()
	})
}

func (b *bareRedis) signal(s syscall.Signal) {
	b.c.t.Helper()
	if err := b.cmd.Process.Signal(s); err != nil {
		b.c.t.Fatal(err)
	}
}

// put publishes a message to any queue that is there.
func (c corner) put(queue string, bodies ...string) {
	c.t.Helper()
	publisher, err := c.connection().Publisher(patience(c.t), len(bodies))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, body := range bodies {
		r, err := publisher.Start(patience(c.t), broker.Message{Queue: queue, ID: "raw", Body: []byte(body)})
		if err != nil {
			c.t.Fatal(err)
		}
		if fate, err := r.Wait(patience(c.t)); fate != broker.Confirmed {
			c.t.Fatal(fate, err)
		}
	}
}
