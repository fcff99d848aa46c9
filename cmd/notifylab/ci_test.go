package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"notifylab/internal/scenario"
)

// junitOf reads a JUnit report. It has to be of one suite, whose sums are right.
func junitOf(t *testing.T, path string) xmlSuite {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var s xmlSuites
	if err := xml.Unmarshal(text, &s); err != nil || len(s.Suites) != 1 {
		t.Fatalf("%v in %s", err, text)
	}
	suite := s.Suites[0]
	failures, errs := 0, 0
	for _, c := range suite.Cases {
		if c.Failure != nil {
			failures++
		}
		if c.Error != nil {
			errs++
		}
	}
	if suite.Tests != len(suite.Cases) || suite.Failures != failures || suite.Errors != errs || suite.Name != "scenario" || suite.Time == "" {
		t.Errorf("sums: %s", text)
	}
	return suite
}

func (x xmlCase) fact(name string) string {
	for _, p := range x.Properties.All {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

func TestScenario_junit(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	path := filepath.Join(c.dir, "report.xml")
	if err := os.WriteFile(path, []byte("an old one"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.run("scenario", "crash-claim", "--repeat", "2", "--junit", path).wantStatus(0)
	suite := junitOf(t, path)
	if len(suite.Cases) != 2 {
		t.Fatalf("%+v", suite)
	}
	for _, x := range suite.Cases {
		if x.Name != "crash-claim" || x.Class != "notifylab.scenario" || x.Failure != nil || x.Error != nil || x.fact("outcome") != "lost" ||
			x.fact("settings") != "idempotency on, claim-lease off" || x.fact("namespace") == "" || x.fact("rabbitmq") == "" {
			t.Errorf("%+v", x)
		}
	}

	r := c.run("scenario", "crash", "--expect", "once", "--junit", path, "-o", "json")
	r.wantStatus(exitFinding)
	suite = junitOf(t, path)
	if len(suite.Cases) != 1 || suite.Failures != 1 {
		t.Fatalf("%+v", suite)
	}
	why := suite.Cases[0].Failure
	if why.Message != "NOT HELD twice, want once" || !strings.Contains(why.Text, "outcome, by --expect: want once, got twice") || len(having(strings.Split(why.Text, "\n"), "SENT push notif:")) != 2 {
		t.Errorf("%+v", why)
	}

	c.run("scenario", "crash", "--timeout", "1ms", "--junit", path).wantStatus(exitInconclusive)
	if suite = junitOf(t, path); suite.Errors != 1 || !strings.HasPrefix(suite.Cases[0].Error.Message, "INCONCLUSIVE ") {
		t.Errorf("%+v", suite)
	}
	if left, _ := filepath.Glob(filepath.Join(c.dir, ".junit-*")); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// What was played before a signal is in the report.
func TestScenario_junit_interrupted(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	path := filepath.Join(c.dir, "report.xml")
	r := c.start("scenario", "all", "--junit", path)
	r.awaitLine("lesson 3 of")
	r.signal(syscall.SIGINT)
	r.wantStatus(exitInterrupted)
	if suite := junitOf(t, path); len(suite.Cases) < 2 || suite.Failures+suite.Errors != 0 {
		t.Errorf("%+v", suite)
	}
}

func TestScenario_junit_unwritable(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	c.wantUsage([]string{"scenario", "crash", "--junit", filepath.Join(c.dir, "nowhere", "x.xml")}, "--junit", "no such file or directory")
	c.wantUsage([]string{"scenario", "all", "--junit", c.dir}, "--junit", "is a directory")
}

// In GitHub Actions a run of many folds, and what did not hold is an annotation.
func TestScenario_in_GitHub_Actions(t *testing.T) {
	t.Parallel()
	c := newCorner(t).with("GITHUB_ACTIONS=true")
	r := c.run("scenario", "crash", "--repeat", "2", "--expect", "once")
	r.wantStatus(exitFinding)
	lines := r.lines()
	if groups, ends := having(lines, "::group::crash"), having(lines, "::endgroup::"); len(groups) != 2 || len(ends) != 2 {
		t.Errorf("%q, %q", groups, ends)
	}
	annotations := having(lines, "::error title=scenario crash::NOT HELD twice, want once%0Aoutcome, by --expect: want once, got twice%0A", "%0A")
	if len(annotations) != 2 {
		t.Error(r.all())
	}
	// Failures come again, last, with what led to them.
	sum := slices.Index(lines, "0 of 2 as predicted")
	if sum < 0 || len(having(lines[sum:], "crash: NOT HELD  twice, want once")) != 2 || len(having(lines[sum:], "CRASH — worker dying after send, BEFORE ack")) != 2 || len(having(lines[sum:], "::")) != 0 {
		t.Error(r.all())
	}
	if r := c.run("scenario", "crash", "--timeout", "1ms"); r.wait() != exitInconclusive || len(having(r.lines(), "::warning title=scenario crash::INCONCLUSIVE ")) != 1 || len(having(r.lines(), "group::")) != 0 {
		t.Error(r.all())
	}
	if r := c.run("scenario", "crash", "--repeat", "2", "--expect", "once", "-o", "json"); r.wait() != exitFinding || len(having(r.lines(), "::error")) != 0 {
		t.Error(r.all())
	}
}

func TestActions_escape(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string][2]string{
		"50%":        {"50%25", "50%25"},
		"a\r\nb":     {"a%0D%0Ab", "a%0D%0Ab"},
		"a: b, c::d": {"a: b, c::d", "a%3A b%2C c%3A%3Ad"},
	} {
		if got := [2]string{actionsText(raw), actionsValue(raw)}; got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
}

// What XML can't hold does not spoil the report.
func TestJUnit_any_text(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.xml")
	j, err := openJUnit(path)
	if err != nil {
		t.Fatal(err)
	}
	nasty := "\x00\x1b[31m]]> <&\" \xff \u202e"
	all := []judged{{suite: "scenario", name: nasty, status: scenario.NotHeld, why: nasty, details: nasty, elapsedMS: 1500, facts: [][2]string{{"a", nasty}}}}
	if err := j.close(all); err != nil {
		t.Fatal(err)
	}
	x := junitOf(t, path).Cases[0]
	if x.Time != "1.500" || !strings.Contains(x.Failure.Text, `]]> <&"`) || strings.ContainsAny(fmt.Sprint(x.Failure), "\x00\x1b") {
		t.Errorf("%+v", x)
	}
}
