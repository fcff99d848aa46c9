package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"notifylab/internal/scenario"
)

// A soak plays on a pair of its own, whatever the addresses say, and its JSON ends
// in counts and a verdict.
func TestSoak(t *testing.T) {
	t.Parallel()
	defer boot([]string{"soak"})()
	c := cornerAt(t, "amqp://guest:guest@"+nobody+"/", "redis://"+nobody+"/0")
	r := c.run("soak", "--duration", "3s", "--kill-every", "500ms", "--restart-every", "1s", "--rate", "100/s", "--setting", "lease+key", "--seed", "41", "-o", "json")
	r.wantStatus(0)
	lines := r.lines()
	if len(lines) < 3 {
		t.Fatal(r.all())
	}
	var sum struct {
		Kind                                                           string
		Confirmed, Accepted, Kills, Once, Twice, Lost, Parked, Unknown int
		RabbitMQRestarts                                               int `json:"rabbitmq_restarts"`
		RedisRestarts                                                  int `json:"redis_restarts"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-2]), &sum); err != nil || sum.Kind != "soak" || sum.Confirmed == 0 || sum.Once != sum.Confirmed ||
		sum.Accepted < sum.Confirmed || sum.Kills == 0 || sum.RedisRestarts == 0 || sum.Twice+sum.Lost+sum.Parked+sum.Unknown != 0 {
		t.Errorf("%v: %s", err, lines[len(lines)-2])
	}
	var v struct {
		Kind, Scenario, Status, Outcome, RabbitMQ, Redis string
		Seed                                             int
		Findings                                         []struct{ OK bool }
		Settings                                         map[string]bool
	}
	if err := json.Unmarshal([]byte(r.lastLine()), &v); err != nil || v.Kind != "verdict" || v.Scenario != "soak" || v.Status != "held" || v.Outcome != "once" ||
		v.RabbitMQ == "" || v.Redis == "" || v.Seed != 41 || len(v.Findings) != 2 || !v.Settings["providerKey"] || !v.Settings["claimLease"] {
		t.Errorf("%v: %s", err, r.lastLine())
	}
	for _, line := range lines {
		if !json.Valid([]byte(line)) || strings.Contains(line, "\x1b") {
			t.Errorf("not JSON: %s", line)
		}
	}
}

// Its text has no progress in a pipe, and says how to have it again.
func TestSoak_text(t *testing.T) {
	t.Parallel()
	defer boot([]string{"soak"})()
	r := cornerAt(t, "", "").raced().run("soak", "--duration", "1s", "--kill-every", "300ms", "--restart-every", "0s", "--rate", "50/s")
	r.wantStatus(0)
	for _, words := range []string{"soak: 1s of 50/s, a worker killed every 300ms", "producer   ", "provider   ", "confirmed  ", "harm       ", "sent again   at most 16 for each kill", "HELD  "} {
		if len(having(r.lines(), words)) != 1 {
			t.Errorf("no %s", words)
		}
	}
	if len(r.errors()) != 1 || t.Failed() {
		t.Error(r.all())
	}
}

func TestSoakLine(t *testing.T) {
	t.Parallel()
	sum := scenario.Tally{ElapsedMS: 83_900, Confirmed: 78_123, Accepted: 78_456, Again: 333, Kills: 41, RabbitMQRestarts: 1, RedisRestarts: 1}
	if got, want := soakLine(sum, 2*time.Minute), "1m23s of 2m  78123 confirmed  78456 accepted  333 again  41 kills  2 restarts"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	sum.ElapsedMS, sum.Confirmed, sum.Accepted = 86_399_000, 99_999_999, 99_999_999
	if got := soakLine(sum, 24*time.Hour); len(got) > 79 {
		t.Errorf("%d columns: %s", len(got), got)
	}
}

func TestSoak_interrupted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		moment, flags string
		sig           syscall.Signal
	}{
		{"soak: ", "", syscall.SIGINT},
		{"is killed", "--kill-every 500ms -v", syscall.SIGTERM},
		{"RabbitMQ is ", "--restart-every 1s --kill-every 500ms -v", syscall.SIGINT},
	} {
		t.Run(fmt.Sprintf("%s at %s", tt.sig, tt.moment), func(t *testing.T) {
			t.Parallel()
			defer boot([]string{"soak"})()
			wantInterrupted(t, tt.moment, tt.sig, append([]string{"soak", "--rate", "50/s"}, strings.Fields(tt.flags)...)...)
		})
	}
}

func TestSoak_none_installed(t *testing.T) {
	t.Parallel()
	skipUnlessAlone(t)
	r := cornerAt(t, "", "").with("PATH=/nowhere", "HOMEBREW_PREFIX=").startAlone([]string{"/usr/lib/rabbitmq", "/usr/local"}, "soak", "-o", "json")
	r.wantStatus(exitInconclusive)
	if len(r.lines()) != 2 || len(having(r.lines(), `"kind":"verdict"`, `"status":"inconclusive"`, "not installed")) != 1 {
		t.Error(r.all())
	}
}
