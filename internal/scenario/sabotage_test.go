package scenario

import (
	"os/exec"
	"regexp"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// A sabotage is a worker with which nothing can be shown.
type sabotage struct {
	name string
	// worker makes its command of the right one.
	worker func(t *testing.T, right []string) []string
	// crashes says that it spoils the lessons of a crash alone.
	crashes bool
	timeout time.Duration // where nothing ends the wait but that, it is short
	// says is what the reason has to match, a good one being one that helps.
	says string
}

// adding appends flags behind all that the stage adds, where they have the last
// word.
func adding(flags string) func(*testing.T, []string) []string {
	return func(_ *testing.T, right []string) []string {
		return append([]string{"sh", "-c", `exec "$0" "$@" ` + flags}, right...)
	}
}

// program runs another program in place of the worker.
func program(name string) func(*testing.T, []string) []string {
	return func(t *testing.T, _ []string) []string {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		return []string{path}
	}
}

// A machine that is too busy may not get as far as that in a short time.
const (
	unaccepted = `(was not accepted on (push|email)|did not come to its end on push|became ready) within 4s`
	unhit      = `^the crash point (before-ack|after-claim) was never reached: \S+ was settled without it`
	unready    = `^no push worker became ready`
	short      = 4 * time.Second
)

func sabotages() []sabotage {
	return []sabotage{
		{"no provider", adding("--provider-url http://127.0.0.1:1"), false, short, `(` + unhit + `|` + unaccepted + `)(.*127\.0\.0\.1:1: .*refused|$)`},
		// Its own lines are those of a worker that sends; the ledger has none of it.
		{"another provider", adding("--provider-url ''"), false, short, unaccepted},
		{"not there", program("false"), false, short, unready + ` within 4s: it ended \d+ times?, the last time with exit 1$`},
		{"ends at once", program("true"), false, short, unready + ` within 4s: it ended \d+ times?, the last time with exit 0$`},
		{"wrong flags", adding("--prefetch 0"), false, deadline, unready + `: push-worker was given up: exit 64 \(.*--prefetch 0.*\)$`},
		{"no crash points", adding("--crash-points=false"), true, deadline, unhit},
	}
}

// TestSabotage: with a worker that can't do what is to be shown no lesson holds.
func TestSabotage(t *testing.T) {
	t.Parallel()
	type sabotaged struct {
		sabotage
		Scenario
	}
	var cases []sabotaged
	for _, s := range sabotages() {
		for _, lesson := range lessons() {
			if lesson.check != nil || !s.crashes {
				cases = append(cases, sabotaged{s, lesson})
			}
		}
	}
	name := func(c sabotaged) string { return c.Scenario.Name + ", " + c.sabotage.name }
	together(t, 2*atOnce, cases, name, func(t *testing.T, c sabotaged) {
		r := newRig(t)
		right := r.Worker
		r.Worker = func(channel notify.Channel) []string { return c.worker(t, right(channel)) }
		r.Settings, r.Timeout = c.Settings, c.timeout
		v := r.run(t, c.Scenario)
		if v.Status != Inconclusive {
			t.Fatal(explain(v))
		}
		// A machine that is busy may not get that far.
		if !matches(c.says+`|(became ready|was not confirmed on (push|email)|was never reached) within 4s`, v.Why) {
			t.Errorf("the reason is no help: %s", v.Why)
		}
		if v.Last == "" && len(v.Events) > 0 {
			t.Errorf("no last event of %d", len(v.Events))
		}
		r.left(t, nothing)
	})
}

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }

// TestRun_out_of_time is inconclusive wherever it was. (MatheusMilanez/RaposaFM#32)
func TestRun_out_of_time(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Timeout = time.Nanosecond
	v := r.run(t, named(t, "crash"))
	if want := "the stage was not up within 1ns"; v.Status != Inconclusive || v.Why != want || v.Scenario != "crash" {
		t.Errorf("want %s: %s", want, explain(v))
	}
	r.left(t, nothing)

	r = newRig(t)
	r.Timeout = 3 * time.Second
	right := r.Worker
	r.Worker = func(c notify.Channel) []string {
		if c == notify.Email { // it won't stop either, and takes all of its grace
			return []string{"sh", "-c", "trap '' TERM; while :; do sleep 1; done"}
		}
		return right(c)
	}
	v = r.run(t, named(t, "fan-out"))
	if want := "no email worker became ready within 3s"; v.Status != Inconclusive || v.Why != want {
		t.Errorf("want %s: %s", want, explain(v))
	}
	if i := len(v.Events) - 1; i < 0 || v.Events[i].Kind == event.Exited {
		t.Errorf("the last event is of the end, not of the play: %s", explain(v))
	}
	r.left(t, nothing)
}
