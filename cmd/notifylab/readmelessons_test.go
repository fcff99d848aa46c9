package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// readmeBlocks are the README's sh blocks of a section.
func readmeBlocks(t *testing.T, section string) []string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n### "+section+"\n")
	if !found {
		t.Fatalf("the README has no section %s", section)
	}
	rest, _, _ = strings.Cut(rest, "\n#")
	var blocks []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(rest, -1) {
		blocks = append(blocks, block[1])
	}
	return blocks
}

// shell is a corner in which notifylab is on the PATH, and stays in the corner.
func (c corner) shell() corner {
	c.t.Helper()
	script := "#!/bin/sh\nexec '" + binary(c.t) + "' \"$@\" --namespace " + c.ns + " --state-dir '" + c.dir + "'\n"
	bin := filepath.Join(c.dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "notifylab"), []byte(script), 0o700); err != nil {
		c.t.Fatal(err)
	}
	return c.with("PATH=" + bin + ":" + os.Getenv("PATH"))
}

// workersOf starts what runs in the README's panes, and returns the events' one.
func (c corner) workersOf(panes string) (events *running) {
	c.t.Helper()
	for _, pane := range regexp.MustCompile(`'([^']+)'`).FindAllStringSubmatch(panes, -1) {
		r := c.launch(exec.Command("bash", "-c", pane[1]))
		c.t.Cleanup(func() { // as Ctrl-C in the pane
			_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGINT)
			r.wait()
		})
		if strings.Contains(pane[1], "notifylab events") {
			events = r
		} else {
			r.awaitLine("READY")
		}
	}
	if events == nil {
		c.t.Fatalf("no events in %s", panes)
	}
	return events
}

// learn runs the lines that have a comment, and waits for what it promises.
func (c corner) learn(lines, before string, events *running) {
	c.t.Helper()
	lessons := 0
	for line := range strings.Lines(lines) {
		command, promise, is := strings.Cut(strings.TrimSpace(line), "  # ")
		_, promise, _ = strings.Cut(promise, ": ")
		if !is {
			continue
		}
		lessons++
		from := len(events.lines())
		r := c.launch(exec.Command("bash", "-c", before+command))
		r.wantStatus(0)
		want := map[string]int{}
		for _, words := range strings.Split(promise, ", ") {
			want[words]++
		}
		events.await(promise+" after "+command, func() bool {
			for words, n := range want {
				if len(having(events.lines()[from:], " "+words)) < n {
					return false
				}
			}
			return true
		})
	}
	if lessons != 6 {
		c.t.Errorf("%d lessons, want 6", lessons)
	}
}

// The six lessons by hand, as somebody does them who reads the README.
func TestREADME_lessons_by_hand(t *testing.T) {
	t.Parallel()
	blocks := readmeBlocks(t, "The six lessons by hand")
	if len(blocks) != 2 {
		t.Fatalf("%d blocks", len(blocks))
	}
	c := newCorner(t).shell()
	events := c.workersOf(blocks[0])
	c.learn(blocks[1], "", events)
	c.wantReady(c.ns+".push.dlq", 1)
}

// And by curl.
func TestREADME_lessons_by_curl(t *testing.T) {
	t.Parallel()
	panes, blocks := readmeBlocks(t, "The six lessons by hand"), readmeBlocks(t, "The same by curl")
	if len(blocks) != 1 || len(panes) == 0 {
		t.Fatalf("%d and %d blocks", len(panes), len(blocks))
	}
	c := newCorner(t).shell()
	_, address := c.startAPI("--listen", "127.0.0.1:0")
	block := strings.ReplaceAll(blocks[0], "localhost:3100", address)
	define, lines, _ := strings.Cut(block, "\n")
	c.learn(lines, define+"\n", c.workersOf(panes[0]))
	curl := lines[strings.LastIndex(strings.TrimSpace(lines), "\n"):]
	if r := c.launch(exec.Command("bash", "-c", curl)); r.wait() != 0 || !strings.Contains(r.text(), `"user":"999"`) {
		t.Errorf("%s\n%s", curl, r.all())
	}
}
