package scenario

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"notifylab/internal/notify"
)

// TestOthers plays the scenarios that are no lessons under the settings that make a
// difference to them, and compares with what was derived by hand. Other is the
// notification on push that is judged beside the victim, from 1; 0: none.
func TestOthers(t *testing.T) {
	t.Parallel()
	type performance struct {
		scenario, row string
		accepted      int
		outcome       Outcome
		other, then   int
	}
	cases := []performance{
		{"crash-send", "record", 1, Once, 2, 1},
		{"crash-send", "lease", 2, Twice, 2, 1},
		{"provider-key", "key", 1, Once, 2, 1},
		{"provider-key", "lease+key", 1, Once, 2, 1},
		{"zombie", "record", 1, Once, 3, 1},
		{"zombie", "lease", 1, Once, 3, 1},
		{"zombie-send", "lease", 2, Twice, 3, 1},
		{"zombie-send", "lease+key", 1, Once, 3, 1},
		{"duplicate-publish", "none", 5, Twice, 2, 1},
		{"duplicate-publish", "record", 1, Once, 2, 1},
		{"duplicate-publish", "lease", 1, Once, 2, 1},
		{"duplicate-publish", "key", 1, Once, 2, 1},
		{"live-takeover", "none", 2, Twice, 2, 1},
		{"live-takeover", "record", 1, Once, 2, 1},
		{"live-takeover", "lease", 1, Once, 2, 1},
		{"live-takeover", "key", 1, Once, 2, 1},
		{"live-takeover", "lease+key", 1, Once, 2, 1},
		{"drain", "none", 1, Once, 3, 2},
		{"drain", "record", 1, Once, 3, 1},
		{"drain", "lease", 1, Once, 3, 2},
		{"drain", "lease+key", 1, Once, 3, 1},
		{"prefetch-blast", "none", 2, Twice, 50, 1},
		{"prefetch-blast", "record", 1, Once, 50, 1},
		{"prefetch-blast", "lease", 2, Twice, 50, 1},
		{"prefetch-blast", "lease+key", 1, Once, 50, 1},
		{"head-of-line", "none", 1, Once, 5, 1},
		{"head-of-line", "lease+key", 1, Once, 5, 1},
		{"poison", "none", 0, Parked, 21, 1},
		{"poison", "record", 0, Parked, 21, 1},
		{"poison", "lease+key", 0, Parked, 21, 1},
		{"malformed", "none", 0, Parked, 2, 1},
		{"malformed", "lease+key", 0, Parked, 2, 1},
		{"replay", "none", 1, Once, 2, 2},
		{"replay", "record", 1, Once, 2, 1},
		{"replay", "lease", 1, Once, 2, 1},
		{"replay", "key", 1, Once, 2, 1},
		{"unroutable", "none", 1, Once, 2, 0},
		{"unroutable", "lease+key", 1, Once, 2, 0},
	}
	name := func(p performance) string { return p.scenario + ", " + p.row }
	together(t, atOnce, cases, name, func(t *testing.T, p performance) {
		r, s := newRig(t), named(t, p.scenario)
		r.Settings = rows()[p.row]
		if err := s.Check(r.Settings); err != nil {
			t.Fatal(err)
		}
		v := r.run(t, s)
		if v.Status != Held || v.Outcome != p.outcome || v.Accepted != p.accepted || r.Settings == s.Settings && v.Outcome != s.Outcome {
			t.Errorf("want held, %d accepted, %s: %s", p.accepted, p.outcome, explain(v))
		}
		id := (&stage{Config: r.Config}).id(p.other)
		for _, f := range v.Outcomes {
			if f.ID == id && f.Channel == push && f.Accepted != p.then {
				t.Errorf("%s: %d accepted, want %d: %s", id, f.Accepted, p.then, explain(v))
			}
		}
		same(t, "what was emitted, and the verdict's events", r.story.All(), v.Events)
		r.left(t, nothing)
	})
}

// TestOthers_agree plays each again and again, four at once, and compares all that was
// found.
func TestOthers_agree(t *testing.T) {
	t.Parallel()
	const rounds = 3
	var names []string
	for name := range otherSpecimens() {
		names = append(names, name)
	}
	together(t, atOnce, names, strings.Clone, func(t *testing.T, name string) {
		var first string
		for i := range rounds {
			r := newRig(t)
			r.Settings = named(t, name).Settings
			v := r.run(t, named(t, name))
			found := gist(v)
			if i == 0 {
				first = found
			}
			if v.Status != Held || found != first {
				t.Fatalf("run %d:\n%sthe first:\n%s%s", i+1, found, first, explain(v))
			}
		}
	})
}

// TestOthers_sabotaged has a real fault in each scenario's own subject: it does not
// hold, or can't be judged, and says why.
func TestOthers_sabotaged(t *testing.T) {
	t.Parallel()
	type sabotaged struct {
		scenario string
		sabotage
		status Status
		failed string // of one that was not held: a finding that says so
	}
	by := func(scenario, name string, worker func(*testing.T, []string) []string) sabotaged {
		return sabotaged{scenario: scenario, sabotage: sabotage{name: name, worker: worker, timeout: deadline}}
	}
	unjudged := func(s sabotaged, timeout time.Duration, says string) sabotaged {
		s.status, s.timeout, s.says = Inconclusive, timeout, says
		return s
	}
	not := func(s sabotaged, finding string) sabotaged {
		s.status, s.failed = NotHeld, finding
		return s
	}
	cases := []sabotaged{
		not(by("duplicate-publish", "no record", adding("--idempotency off --claim-lease off")), ""),
		unjudged(by("live-takeover", "not on the cable", onTheWire), short, `no lease busy came for \S+ on push within 4s`),
		not(by("drain", "no time to finish", adding("--grace 1ms")), ""),
		unjudged(by("prefetch-blast", "one at a time", adding("--prefetch 10 --concurrency 10")), short, `\d+ of 1 were accepted on push within 4s`),
		not(by("head-of-line", "two at a time, each", adding("--prefetch 2 --concurrency 2")), "provider, push, one at a time"),
		unjudged(by("poison", "no crash points", adding("--crash-points=false")), deadline, `the crash point after-receive was never reached: \S+ was settled without it`),
		not(by("poison", "parked too early", adding("--max-crashes 1")), "push worker, killed"),
		not(by("poison", "parked too late", adding("--max-crashes 4")), "push worker, killed"),
		unjudged(by("malformed", "nobody there", program("false")), short, unready),
		unjudged(by("unroutable", "another provider", adding("--provider-url ''")), short, unaccepted),
	}
	for i := range cases {
		if cases[i].says == "" && cases[i].failed == "" { // the play may not come to its end
			cases[i].status = ""
		}
	}
	name := func(c sabotaged) string { return c.scenario + ", " + c.name }
	together(t, 2*atOnce, cases, name, func(t *testing.T, c sabotaged) {
		r := newRig(t)
		right := r.Worker
		r.Worker = func(channel notify.Channel) []string { return c.worker(t, right(channel)) }
		r.Settings, r.Timeout = named(t, c.scenario).Settings, c.timeout
		if c.status == "" {
			r.Timeout = short
		}
		v := r.run(t, named(t, c.scenario))
		if v.Status == Held || c.status != "" && v.Status != c.status {
			t.Fatal(explain(v))
		}
		if c.says != "" && !regexp.MustCompile(c.says+`|became ready within 4s$`).MatchString(v.Why) {
			t.Errorf("the reason is no help: %s", v.Why)
		}
		found := c.failed == ""
		for _, f := range v.Findings {
			found = found || f.What == c.failed && !f.OK
		}
		if !found {
			t.Errorf("%s is not what failed: %s", c.failed, explain(v))
		}
		r.left(t, nothing)
	})
}

// onTheWire is a worker that takes the straight way to the broker, whatever it was
// told.
func onTheWire(t *testing.T, right []string) []string {
	return adding("--amqp-url "+newRig(t).AMQPURL)(t, right)
}

// TestReplay_is_done_by_the_program: a command that says so and replays nothing is
// found out, and one that fails is no verdict.
func TestReplay_is_done_by_the_program(t *testing.T) {
	t.Parallel()
	for program, says := range map[string]string{
		`echo '{"kind":"replayed","replayed":1,"already_sent":1}'`: `was not accepted on push within 4s|became ready within 4s`,
		`echo 'no such luck' >&2; exit 69`:                         `notifylab dlq replay: exit status 69\nno such luck|became ready within 4s`,
	} {
		r := newRig(t)
		r.Settings, r.Timeout, r.Program = withLease(), short, []string{"sh", "-c", program}
		if v := r.run(t, named(t, "replay")); v.Status != Inconclusive || !regexp.MustCompile(says).MatchString(v.Why) {
			t.Errorf("%s: %s", program, explain(v))
		}
	}
}
