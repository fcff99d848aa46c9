package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"notifylab/internal/lab"
	"notifylab/internal/scenario"
	"notifylab/internal/worker"
)

// A script for each shell; bash's parses.
func TestCompletion_scripts(t *testing.T) {
	t.Parallel()
	c := cornerAt(t, "", "").nowhere()
	for shell, want := range map[string]string{
		"bash": "complete -o default", "zsh": "#compdef notifylab", "fish": "complete -c notifylab",
	} {
		r := c.run("completion", shell)
		r.wantStatus(0)
		if !strings.Contains(r.text(), want) || !strings.Contains(r.text(), "__complete") || r.errorText() != "" {
			t.Errorf("%s: no %q in\n%.500s", shell, want, r.all())
		}
		if shell != "bash" {
			continue
		}
		cmd := exec.Command("bash", "-n")
		cmd.Stdin = strings.NewReader(r.text())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("bash: %v\n%s", err, out)
		}
	}
}

func TestCompletion_knows(t *testing.T) {
	t.Parallel()
	c := cornerAt(t, "", "").nowhere()
	var scenarios, points []string
	for _, s := range scenario.Catalogue() {
		scenarios = append(scenarios, s.Name)
	}
	for _, p := range worker.Points() {
		points = append(points, string(p))
	}
	channels := []string{"push", "email"}
	for args, want := range map[string][]string{
		"scenario":             scenarios,
		"worker":               channels,
		"supervise":            channels,
		"dlq list":             channels,
		"dlq replay":           channels,
		"scenario all --tag":   scenario.Tags(),
		"scenario all --skip":  append(scenario.Tags(), scenarios...),
		"scenario list --skip": append(scenario.Tags(), scenarios...),
		"produce --channel":    channels,
		"produce --crash-at":   points,
		"produce --mode":       {"default", "crash", "crash-claim", "bad-token"},
		"matrix --only":        cellNames(),
		"matrix --break":       {"nx", "compare-and-set", "clock", "confirm"},
		"settings":             append(lab.Fields(), "set", "reset"),
		"settings claim-lease": nil,
		"settings set":         {"idempotency=on", "idempotency=off", "claim-lease=on", "claim-lease=off", "provider-key=on", "provider-key=off"},
		"settings set idempotency=on claim-lease=off": {"provider-key=on", "provider-key=off"},
		"completion":                {"bash", "zsh", "fish"},
		"records --state":           {"claimed", "pending", "done"},
		"produce -o":                {"text", "json"},
		"worker push --ack":         {"late", "early"},
		"worker push --idempotency": {"on", "off"},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			c := c
			c.t = t
			r := c.launch(command(t, append(append([]string{"__complete"}, strings.Fields(args)...), "")...))
			r.wantStatus(0)
			var got []string
			for _, l := range r.lines() {
				word, _, _ := strings.Cut(l, "\t")
				if !strings.HasPrefix(word, ":") { // how to go on
					got = append(got, word)
				}
			}
			for _, w := range want {
				if n := len(slices.DeleteFunc(slices.Clone(got), func(g string) bool { return g != w })); n != 1 {
					t.Errorf("%q is offered %d times, in %q", w, n, got)
				}
			}
			if want == nil && len(got) > 0 {
				t.Errorf("offers %q", got)
			}
		})
	}
}
