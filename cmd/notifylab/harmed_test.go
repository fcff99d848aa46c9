package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"notifylab/internal/scenario"
)

// nobody is where no server answers.
const nobody = "127.0.0.1:1"

// Those that harm servers are played on a pair of their own, whatever the addresses
// say: one for all of a run, which is gone after it.
func TestScenario_that_harms(t *testing.T) {
	t.Parallel()
	defer boot([]string{"redis-outage"})()
	c := cornerAt(t, "amqp://guest:guest@"+nobody+"/", "redis://"+nobody+"/0")
	r := c.run("scenario", "redis-outage", "--repeat", "3")
	r.wantStatus(0)
	if n := len(having(r.lines(), "HELD  once: ")); n != 3 {
		t.Errorf("held %d times\n%s", n, r.all())
	}
	if ready := regexp.MustCompile(`^starting a private RabbitMQ and Redis, about 8 s … ready after [0-9.]+ s$`); len(r.errors()) != 1 || !ready.MatchString(r.errors()[0]) {
		t.Errorf("stderr:\n%s", r.errorText())
	}
	c.awaitNoProcess()

	r = c.run("scenario", "redis-amnesia", "-o", "json")
	r.wantStatus(0)
	var v struct{ Kind, Scenario, Status, Outcome, RabbitMQ, Redis string }
	if err := json.Unmarshal([]byte(r.lastLine()), &v); err != nil || v.Kind != "verdict" || v.Scenario != "redis-amnesia" ||
		v.Status != "held" || v.Outcome != "twice" || v.RabbitMQ == "" || v.Redis == "" {
		t.Errorf("%v: %s", err, r.lastLine())
	}
}

// What it says of itself follows from its entry in the catalogue.
func TestScenario_that_harms_says_so(t *testing.T) {
	t.Parallel()
	c := cornerAt(t, "", "")
	for _, s := range scenario.Catalogue() {
		r := c.run("scenario", s.Name, "--help")
		r.wantStatus(0)
		limit := fmt.Sprintf("(default %s)", map[bool]string{false: "30s", true: "2m0s"}[s.Harms])
		for words, want := range map[string]bool{"a RabbitMQ and a Redis of its own": s.Harms, "--keep": !s.Harms, limit: true} {
			if got := strings.Contains(r.text(), words); got != want {
				t.Errorf("%s: %q in its help: %v", s.Name, words, got)
			}
		}
	}
	r := c.run("scenario", "all", "--help")
	if len(having(r.lines(), "--timeout", "(default 30s)")) == 0 || len(having(r.lines(), "those that harm servers have 2m")) == 0 {
		t.Error(r.all())
	}
}

// Wherever it is interrupted, its servers are gone, also those that were away.
func TestScenario_that_harms_interrupted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args, moment string
		sig          syscall.Signal
	}{
		{"broker-restart", "starting a private", syscall.SIGTERM},
		{"broker-restart", "DISCONNECTED", syscall.SIGINT},
		{"broker-restart", "RabbitMQ is stopped", syscall.SIGTERM},
		{"redis-outage", "Redis is killed", syscall.SIGINT},
		{"broker-alarm", "COPY WAITING", syscall.SIGINT},
	} {
		t.Run(fmt.Sprintf("%s, %s at %s", tt.args, tt.sig, tt.moment), func(t *testing.T) {
			t.Parallel()
			defer boot([]string{tt.args})()
			wantInterrupted(t, tt.moment, tt.sig, "scenario", tt.args)
		})
	}
}

// wantInterrupted sends a signal at a line, and expects that nothing is left.
func wantInterrupted(t *testing.T, moment string, sig syscall.Signal, args ...string) {
	t.Helper()
	c := cornerAt(t, "", "").raced()
	r := c.start(args...)
	r.await(moment, func() bool { return len(having(append(r.lines(), r.errors()...), moment)) > 0 })
	r.signal(sig)
	r.wantStatus(128 + int(sig))
	if len(having(r.errors(), "notifylab:")) > 0 {
		t.Errorf("stderr:\n%s", r.errorText())
	}
	c.awaitNoProcess()
}

// Without installed servers it can't be judged.
func TestScenario_that_harms_none_installed(t *testing.T) {
	t.Parallel()
	skipUnlessAlone(t)
	c := cornerAt(t, "", "").with("PATH=/nowhere", "HOMEBREW_PREFIX=")
	hide := []string{"/usr/lib/rabbitmq", "/usr/local"}
	r := c.startAlone(hide, "scenario", "broker-restart")
	r.wantStatus(exitInconclusive)
	if len(having(r.lines(), "INCONCLUSIVE  it harms servers, so it needs some of its own: ", "not installed")) != 1 || r.errorText() != "" {
		t.Error(r.all())
	}
	r = c.startAlone(hide, "scenario", "broker-alarm", "-o", "json")
	r.wantStatus(exitInconclusive)
	if len(r.lines()) != 1 || len(having(r.lines(), `"kind":"verdict"`, `"status":"inconclusive"`)) != 1 {
		t.Error(r.all())
	}
}
