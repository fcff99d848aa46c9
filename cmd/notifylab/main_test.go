package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"notifylab/internal/servers/serverstest"
)

// limit is how long any test waits for anything. It never passes when all is well.
const limit = 2 * time.Minute

func TestMain(m *testing.M) {
	if enterAlone() {
		return
	}
	serverstest.Parallel()
	code := serverstest.Main(m)
	built.remove()
	os.Exit(code)
}

// built is the program under test: $NOTIFYLAB_BIN, or one that the first test to
// ask builds.
var built program

type program struct {
	once sync.Once
	dir  string
	path string
	err  error
	text string
}

func (p *program) build() {
	if p.path = os.Getenv("NOTIFYLAB_BIN"); p.path != "" {
		p.path, p.err = filepath.Abs(p.path)
		return
	}
	if p.dir, p.err = os.MkdirTemp("", "nl-bin-"); p.err != nil {
		return
	}
	p.path = filepath.Join(p.dir, "notifylab")
	text, err := exec.Command("go", "build", "-race", "-o", p.path, ".").CombinedOutput()
	p.text, p.err = string(text), err
}

func (p *program) remove() {
	if p.dir != "" {
		_ = os.RemoveAll(p.dir)
	}
}

func binary(t testing.TB) string {
	t.Helper()
	built.once.Do(built.build)
	if built.err != nil {
		t.Fatalf("build the program: %v\n%s", built.err, built.text)
	}
	return built.path
}

// plain is the program without the race detector, $NOTIFYLAB_PLAIN_BIN, if there is one.
// With it a start costs less than a third: 50 ms of CPU and not 180 (measured).
func plain(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs(os.Getenv("NOTIFYLAB_PLAIN_BIN"))
	if err != nil || os.Getenv("NOTIFYLAB_PLAIN_BIN") == "" {
		return binary(t)
	}
	return path
}

// binaryFor is the plain program for commands that explain, look or switch something,
// and have ended: they do one thing after the other; and for those that play, but in a
// raced corner: what they play has tests of its own, in internal/scenario, under the race
// detector and with workers that are.
func binaryFor(t testing.TB, args []string) string {
	t.Helper()
	behind := map[string]string{ // the words of which one has to follow, if any
		"help": "", "completion": "", "__complete": "", "healthcheck": "", "doctor": "", "settings": "", "queues": "", "records": "",
		"groups": "", "reset": "", "expire": "", "dlq": "list show purge", "servers": "down",
		"scenario": "", "matrix": "", "soak": "",
	}
	if slices.Contains(args, "--help") {
		return plain(t)
	}
	if len(args) == 0 || slices.Contains(args, "-w") || slices.Contains(args, "--watch") {
		return binary(t)
	}
	words, ok := behind[args[0]]
	if ok && (words == "" || len(args) > 1 && slices.Contains(strings.Fields(words), args[1])) {
		return plain(t)
	}
	return binary(t)
}

// A corner is one test's own: a namespace, a directory for all that the program
// writes, and what its processes can be told by. When the test ends none of them
// may be left.
type corner struct {
	t           *testing.T
	amqp, redis string
	ns, dir     string
	env         []string // over the test's own
	race        bool     // the race detector in every program
}

// newCorner returns a corner on the servers that all tests share.
func newCorner(t *testing.T) corner {
	t.Helper()
	amqp, redis := serverstest.URLs(t)
	return cornerAt(t, amqp, redis)
}

// cornerAt returns a corner on servers of its own, or on none.
func cornerAt(t *testing.T, amqp, redis string) corner {
	t.Helper()
	dir, err := os.MkdirTemp("", "nl-cli-") // short: sockets are made below it
	if err != nil {
		t.Fatal(err)
	}
	c := corner{t: t, amqp: amqp, redis: redis, ns: serverstest.Namespace(t), dir: dir}
	t.Cleanup(func() {
		c.awaitNoProcess()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return c
}

// raced is the corner with the race detector in every program that it starts.
func (c corner) raced() corner {
	c.race = true
	return c
}

func (c corner) with(env ...string) corner {
	c.env = append(c.env[:len(c.env):len(c.env)], env...)
	return c
}

// environment is the test's own without what decides how the program behaves.
func (c corner) environment() []string {
	var env []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		switch name {
		case "AMQP_URL", "REDIS_URL", "NO_COLOR", "FORCE_COLOR", "TERM", "XDG_STATE_HOME", "TMPDIR",
			"IDEMPOTENCY_ENABLED", "CLAIM_LEASE_ENABLED", "NOTIFYLAB_LIFELINE", "GORACE":
		default:
			env = append(env, e)
		}
	}
	// The race detector has a process wait a second before it ends.
	env = append(env, "TMPDIR="+c.dir, "TERM=xterm", "GORACE=atexit_sleep_ms=0", c.mark())
	if c.amqp != "" {
		env = append(env, "AMQP_URL="+c.amqp)
	}
	if c.redis != "" {
		env = append(env, "REDIS_URL="+c.redis)
	}
	return append(env, c.env...)
}

// mark is in the environment of the corner's processes.
func (c corner) mark() string { return "NOTIFYLAB_TEST_CORNER=" + c.ns }

// placed puts the corner's namespace and directory among the arguments.
func (c corner) placed(args []string) []string {
	own := []string{"--namespace", c.ns, "--state-dir", c.dir}
	for i, a := range args {
		if a == "--" {
			return append(append(append([]string(nil), args[:i]...), own...), args[i:]...)
		}
	}
	return append(append([]string(nil), args...), own...)
}

// awaitProcesses waits until there are so many of the corner's processes, or more.
func (c corner) awaitProcesses(n int) {
	c.t.Helper()
	eventually(c.t, "processes are missing", func() string {
		if found := c.processes(); len(found) < n {
			return fmt.Sprint("only ", found)
		}
		return ""
	})
}

// awaitNoProcess waits until none of the corner's processes is left.
func (c corner) awaitNoProcess() {
	c.t.Helper()
	eventually(c.t, "processes are left", func() string {
		var left []string
		for pid, command := range c.processes() {
			left = append(left, pid+" "+command)
		}
		return strings.Join(left, "\n")
	})
}

// eventually asks until wrong returns nothing. It is for what nobody tells of.
func eventually(t *testing.T, what string, wrong func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		text := wrong()
		if text == "" {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Errorf("%s: %s", what, text)
			return
		}
	}
}

// processes lists the corner's, by pid, zombies left out.
func (c corner) processes() map[string]string {
	found := map[string]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	if len(dirs) == 0 { // no Linux
		out, _ := exec.Command("ps", "-axww", "-o", "pid=,command=").Output()
		for line := range strings.Lines(string(out)) {
			pid, command, _ := strings.Cut(strings.TrimSpace(line), " ")
			if strings.Contains(command, c.dir) {
				found[pid] = command
			}
		}
		return found
	}
	for _, dir := range dirs {
		command, err := os.ReadFile(dir + "/cmdline")
		if err != nil || len(command) == 0 {
			continue
		}
		environment, _ := os.ReadFile(dir + "/environ")
		if strings.Contains(string(command), c.dir) || strings.Contains(string(environment), c.mark()+"\x00") {
			found[filepath.Base(dir)] = strings.ReplaceAll(string(command), "\x00", " ")
		}
	}
	return found
}
