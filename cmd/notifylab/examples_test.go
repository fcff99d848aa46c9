package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"notifylab/internal/scenario"

	"github.com/spf13/cobra"
)

// commands lists every command that help shows, parents included.
func commands(t *testing.T) []*cobra.Command {
	t.Helper()
	var all []*cobra.Command
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		all = append(all, cmd)
		for _, c := range cmd.Commands() {
			if !c.Hidden {
				walk(c)
			}
		}
	}
	walk((&app{}).root())
	if len(all) < 20 {
		t.Fatalf("only %d commands", len(all))
	}
	return all
}

func commandPaths(t *testing.T) (paths [][]string) {
	for _, cmd := range commands(t) {
		paths = append(paths, strings.Fields(cmd.CommandPath())[1:])
	}
	return paths
}

// exampleLines lists the lines of all Examples, each once.
func exampleLines(t *testing.T) []string {
	var lines []string
	for _, cmd := range commands(t) {
		if cmd.Example == "" {
			t.Errorf("%s has no Example", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			line = strings.TrimSpace(line)
			if line == "" {
				continue
			}
			if !strings.HasPrefix(line, "notifylab ") {
				t.Errorf("%s: %q is not ours", cmd.CommandPath(), line)
			}
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// words splits a line as a shell does, as far as Examples need it.
func words(line string) (words []string) {
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// isOther says whether args play a scenario that is none of the six lessons.
func isOther(args []string) bool {
	return args[0] == "scenario" && slices.ContainsFunc(scenario.Catalogue(), func(s scenario.Scenario) bool {
		return s.Lesson == 0 && slices.Equal(args, []string{"scenario", s.Name})
	})
}

func TestExamples_run(t *testing.T) {
	t.Parallel()
	shared := newCorner(t)
	for _, line := range exampleLines(t) {
		args := words(line)[1:]
		switch {
		case args[0] == "servers":
			// TestServers does what they say.
			continue
		case line == "notifylab scenario all", line == "notifylab matrix":
			// It takes as long as all of them together: CI plays it by itself.
			continue
		case isOther(args):
			// CI plays all of them, one by one, by scenario all: here, beside everything
			// else, their time-outs and ratios would be those of a busy machine.
			continue
		case slices.Contains(args, "-w"), slices.Contains(args, "-f"):
			// With nothing to show there is no line by which to know that they look.
			continue
		case args[0] == "provider", args[0] == "api":
			args = append(args, "--listen", "127.0.0.1:0") // the port of the Example may be taken
		}
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			defer boot(args)()
			r := cornerAt(t, shared.amqp, shared.redis).start(args...)
			if args[0] == "dlq" && slices.Contains(args, "k7f3-1") { // which is not there
				r.wantStatus(exitFinding)
				return
			}
			if slices.Contains([]string{"worker", "supervise", "provider", "api", "reaction", "reader"}, args[0]) && !slices.Contains(args, "--help") {
				r.await("first line", func() bool { return len(r.lines())+len(r.errors()) > 0 })
				r.signal(syscall.SIGINT)
			}
			r.wantStatus(0)
			if len(having(r.complaints(), "notifylab:")) > 0 {
				t.Error(r.all())
			}
		})
	}
}
