package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"notifylab/internal/bench"
	"notifylab/internal/event"
)

func TestBench(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	cpu, mem := filepath.Join(c.dir, "cpu"), filepath.Join(c.dir, "mem")
	r := c.run("bench", "--only", "consume/lease", "--rounds", "2", "--messages", "300", "--cpuprofile", cpu, "--memprofile", mem)
	r.wantStatus(0)
	lines := r.lines()
	machine := regexp.MustCompile(`^RabbitMQ \d+\.\d+\S*, Redis \d+\.\d+\S*, \w+/\w+, \d+ cores?\b`)
	built := regexp.MustCompile(`^go1\.\S+, amqp091-go 1\.\S+, go-redis 9\.\S+$`)
	if !machine.MatchString(lines[0]) || !built.MatchString(lines[1]) || len(having(lines, "quorum queues; ", " 300 messages a run, prefetch 512, concurrency 256, the median of 2 runs")) != 1 ||
		len(having(lines, "consume/bare    ", "/s")) != 1 || len(having(lines, "consume/lease ", "/s", " of consume/bare  Redis ", " µs")) != 1 ||
		len(having(lines, "a quick look: too short to compare")) != 1 || len(having(lines, "measured in ", "s")) != 1 || len(lines) != 9 {
		t.Error(r.all())
	}
	for _, path := range []string{cpu, mem} {
		if b, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(b), "\x1f\x8b") { // pprof's files are gzipped
			t.Errorf("%s: %v", path, err)
		}
	}
	r = c.run("bench", "--only", "recovery/second,workers", "--recoveries", "2", "--rounds", "1", "--workers", "1", "-o", "json")
	r.wantStatus(0)
	all := r.objects()
	if len(all) != 3 || all[0]["kind"] != "machine" || all[0]["prefetch"] != 512.0 || all[0]["rounds"] != 1.0 || all[0]["short"] != true || all[0]["rabbitmq"] == "" ||
		all[1]["name"] != "recovery/second" || all[1]["runs"] != 2.0 || all[1]["p50_ms"] == nil || all[1]["with"] == nil || all[2]["name"] != "workers/1" || all[2]["per_s"] == nil {
		t.Error(r.all())
	}
	c.wantClean(nil)
}

// Only ratios of short or few runs are no good.
func TestBenchText_foot(t *testing.T) {
	t.Parallel()
	compared := bench.Figure{Name: "consume/lease", PerS: 1, Ratio: 0.9, Against: "consume/bare"}
	own := bench.Figure{Name: "workers/2", PerS: 1, Ratio: 2, Against: "workers/1", Messages: 3000}
	for name, tt := range map[string]struct {
		few, once bool
		figure    bench.Figure
		want      bool
	}{
		"short, a ratio":                     {true, false, compared, true},
		"short, no ratio":                    {true, true, bench.Figure{Name: "consume/bare", PerS: 1}, false},
		"long, a ratio":                      {false, false, compared, false},
		"once, a ratio":                      {false, true, compared, true},
		"others are short, it has its own":   {true, false, own, false},
		"it has its own messages, only once": {false, true, own, true},
	} {
		var b bytes.Buffer
		text := &benchText{printer: &printer{w: event.NewWriter(&b), palette: newPalette(false)}, fewMessages: tt.few, fewRounds: tt.once}
		text.figure(tt.figure)
		text.foot(time.Second)
		if got := strings.Contains(b.String(), "too short to compare"); got != tt.want {
			t.Errorf("%s: %v\n%s", name, got, b.String())
		}
	}
}

func TestBench_usage(t *testing.T) {
	t.Parallel()
	c := newCorner(t).nowhere()
	c.wantUsage([]string{"bench", "--only", "consume/leese"}, `no figure "consume/leese"`, "consume/lease")
	c.wantUsage([]string{"bench", "--rounds", "0"}, "--rounds 0", "at least 1")
	c.wantUsage([]string{"bench", "--workers", "2,0"}, "--workers 0", "at least 1")
	c.wantUsage([]string{"bench", "--workers", "1,2,1"}, "--workers 1 2 1", "each once")
	c.wantUsage([]string{"bench", "--backlogs", "10,10"}, "--backlogs 10 10", "each once")
	c.wantUsage([]string{"bench", "--prefetch", "16"}, "--concurrency 256", "--prefetch 16")
	c.wantUsage([]string{"bench", "--cpuprofile", filepath.Join(c.dir, "nowhere", "x")}, "--cpuprofile", "no such file")
}

// What the issue of fast says is measured by default.
func TestBench_defaults(t *testing.T) {
	t.Parallel()
	c := newCorner(t).nowhere()
	help := c.run("bench", "--help").text()
	for _, want := range []string{
		"--backlogs ints .*default \\[10000,100000,1000000\\]", "--recoveries int .*default 30", "--rounds int .*default 3",
		"--prefetch int .*default 512", "--concurrency int .*default 256", "--messages int .*default 50000", "--queue-type .*default quorum",
	} {
		if !regexp.MustCompile(want).MatchString(help) {
			t.Errorf("no %s in\n%s", want, help)
		}
	}
}

// Interrupted, it leaves no queue, no key and no process: by a Ctrl-C that comes twice
// from one cause, too, and when its terminal goes.
func TestBench_interrupted(t *testing.T) {
	t.Parallel()
	shared := newCorner(t)
	for _, signals := range [][]syscall.Signal{{syscall.SIGINT}, {syscall.SIGINT, syscall.SIGINT}, {syscall.SIGHUP}} {
		t.Run(fmt.Sprint(signals), func(t *testing.T) {
			t.Parallel()
			c := cornerAt(t, shared.amqp, shared.redis)
			r := c.start("bench", "--only", "workers", "--workers", "2", "--rounds", "50", "-o", "json")
			r.awaitLine(`"kind":"machine"`)
			c.awaitWorkers(2)
			for _, s := range signals {
				r.signal(s)
			}
			r.wantStatus(128 + int(signals[0]))
			c.wantClean(nil)
		})
	}
}

// Ended at once by a second signal it says what clears up, and that does. It is stopped
// by then, so that it can't clear up by itself.
func TestBench_ended_at_once(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	r := c.start("bench", "--only", "consume/lease", "--messages", "5000", "--rounds", "500", "-o", "json")
	eventually(t, "it has made keys", func() string {
		keys, err := c.store().Keys(patience(t), c.ns+"*notification:*").Result()
		if err != nil || len(keys) == 0 {
			return fmt.Sprint("none: ", err)
		}
		return ""
	})
	r.signal(syscall.SIGSTOP)
	r.signal(syscall.SIGTERM)
	r.signal(syscall.SIGINT)
	r.signal(syscall.SIGCONT)
	if status := r.wait(); status != 128+int(syscall.SIGTERM) && status != 128+int(syscall.SIGINT) { // whichever it takes for the second
		t.Errorf("status %d", status)
	}
	said := having(r.errors(), "notifylab: ended at once; what it has left behind: notifylab ")
	if len(said) != 1 {
		t.Fatal(r.all())
	}
	c.awaitNoProcess()
	_, mend, _ := strings.Cut(said[0], ": notifylab ")
	words := strings.Fields(mend) // --namespace NAME reset --yes
	c.launch(exec.Command(binary(t), words...)).wantStatus(0)
	c.wantClean([]string{", namespace " + words[1]})
}

// awaitWorkers waits until so many workers run in the corner.
func (c corner) awaitWorkers(n int) {
	c.t.Helper()
	eventually(c.t, "workers run", func() string {
		found := 0
		for _, command := range c.processes() {
			if strings.Contains(command, " worker push ") {
				found++
			}
		}
		if found == n {
			return ""
		}
		return "not yet"
	})
}
