package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"notifylab/internal/scenario"
)

// readmeLines lists the commands in the README's sh blocks, and what stands in
// backquotes and begins with our name, each once, without their comments.
func readmeLines(t *testing.T) (ours, others []string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			line, _, _ = strings.Cut(line, "  #")
			lines = append(lines, strings.Split(line, "; ")...)
		}
	}
	for _, code := range regexp.MustCompile("`(notifylab [^`]+)`").FindAllStringSubmatch(string(text), -1) {
		lines = append(lines, code[1])
	}
	for _, line := range lines {
		line, _, _ := strings.Cut(strings.TrimSpace(line), " | ")
		switch {
		case line == "" || slices.Contains(ours, line) || slices.Contains(others, line) || strings.Contains(line, "NAME"):
		case strings.HasPrefix(line, "notifylab "):
			ours = append(ours, line)
		default:
			others = append(others, line)
		}
	}
	return ours, others
}

// Every command of the README runs as it is written.
func TestREADME_commands_run(t *testing.T) {
	t.Parallel()
	shared := newCorner(t)
	ours, others := readmeLines(t)
	if len(ours) < 10 {
		t.Fatalf("only %d commands of ours: %q", len(ours), ours)
	}
	for _, line := range others {
		target, isMake := strings.CutPrefix(line, "make ")
		if makefile, err := os.ReadFile("../../Makefile"); isMake && (err != nil || !strings.Contains(string(makefile), "\n"+target+":")) {
			t.Errorf("%s: the Makefile has no such target", line)
		}
	}
	for _, line := range ours {
		args := words(line)[1:]
		switch {
		case slices.Contains([]string{"servers", "api", "doctor"}, args[0]):
			continue // their ports, or the state of the machine: they have tests of their own
		case line == "notifylab scenario all", line == "notifylab matrix":
			continue // it takes as long as all of them together: CI plays it by itself
		case line == "notifylab matrix --break clock":
			continue // as it must it ends with 1
		case slices.Contains(args, "-f"), slices.Contains(args, "-w"):
			continue // with nothing to show there is no line by which to know that they look
		case args[0] == "provider":
			args = append(args, "--listen", "127.0.0.1:0")
		}
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			defer boot(args)()
			r := cornerAt(t, shared.amqp, shared.redis).start(args...)
			if slices.Contains([]string{"worker", "supervise", "provider"}, args[0]) {
				r.await("first line", func() bool { return len(r.lines())+len(r.errors()) > 0 })
				r.signal(syscall.SIGINT)
			}
			r.wantStatus(0)
		})
	}
}

// The output that the README shows is what the lesson prints, but for names and
// times.
func TestREADME_output_is_real(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)<!-- output: notifylab scenario crash-claim -->\n```text\n(.*?)```").FindStringSubmatch(string(text))
	if shown == nil {
		t.Fatal("the README shows no output of crash-claim")
	}
	r := newCorner(t).run("scenario", "crash-claim")
	r.wantStatus(0)
	if got, want := timeless(strings.Join(r.lines(), "\n")), timeless(shown[1]); got != want {
		t.Errorf("printed:\n%s\nthe README shows:\n%s", got, want)
	}
}

// timeless takes out what differs from run to run.
func timeless(text string) string {
	for pattern, instead := range map[string]string{
		`RabbitMQ [0-9.]+, Redis [0-9.]+`: "RabbitMQ, Redis",
		`namespace \S+`:                   "namespace NS",
		`[a-z][a-z0-9-]*-([12])\b`:        "NS-$1",
		`\+[0-9.]+`:                       "+T",
		`23h59m[0-9]+s`:                   "T",
		` +`:                              " ",
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, instead)
	}
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// No scenario has the name of one of the commands beside it, or of a tag: what is
// skipped is one or the other.
func TestCatalogue_names(t *testing.T) {
	t.Parallel()
	var names []string
	for _, s := range scenario.Catalogue() {
		if slices.Contains(append([]string{"list", "all", "help"}, scenario.Tags()...), s.Name) || slices.Contains(names, s.Name) {
			t.Errorf("no scenario can be called %s", s.Name)
		}
		names = append(names, s.Name)
	}
}
