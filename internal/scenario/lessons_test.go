package scenario

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifylab/internal/event"
)

// atOnce is how many scenarios the tests play at the same time.
const atOnce = 4

// A performance is a lesson under some settings.
type performance struct {
	lesson   string
	settings event.Settings
}

func (p performance) String() string { return p.lesson + ", " + settingsName(p.settings) }

// lessons are the scenarios that are numbered.
func lessons() []Scenario {
	return slices.DeleteFunc(Catalogue(), func(s Scenario) bool { return s.Lesson == 0 })
}

// TestLessons plays each with its own settings; those that come out alike under all
// under all; and the crashes under all others, judged by what is predicted.
func TestLessons(t *testing.T) {
	t.Parallel()
	var cases []performance
	for _, s := range lessons() {
		for _, settings := range allSettings() {
			twin := s.Name == "idempotency" || s.Name == "claim-lease" // the same play as the one before it
			if settings == s.Settings || s.Check(settings) == nil && !twin {
				cases = append(cases, performance{s.Name, settings})
			}
		}
	}
	if len(cases) != 8+8+8+1+4+1 {
		t.Errorf("%d performances: %v", len(cases), cases)
	}
	together(t, atOnce, cases, performance.String, func(t *testing.T, p performance) {
		r, s := newRig(t), named(t, p.lesson)
		r.Settings = p.settings
		v := r.run(t, s)
		want := s.Outcome
		if s.check != nil {
			want = v.Want
		}
		if v.Status != Held || v.Outcome != want || p.settings == s.Settings && v.Outcome != s.Outcome {
			t.Error(explain(v))
		}
		if want, ok := knownBy()[s.Name]; ok && p.settings == s.Settings {
			if i := slices.IndexFunc(v.Findings, func(f Finding) bool { return f.What == "worker lines" }); v.Findings[i].Got != want {
				t.Errorf("worker lines: %s, want %s", v.Findings[i].Got, want)
			}
		}
		if v.Scenario != s.Name || v.Settings != p.settings || v.Namespace != string(r.Namespace) || v.Seed != r.Seed {
			t.Errorf("signed %s, %+v, %s, %d", v.Scenario, v.Settings, v.Namespace, v.Seed)
		}
		same(t, "what was emitted, and the verdict's events", r.story.All(), v.Events)
		r.left(t, nothing)
	})
}

// knownBy are the lines by which each lesson is known.
func knownBy() map[string]string {
	return map[string]string{
		"crash":       "sent, crash, received, sent",
		"idempotency": "sent, crash, duplicate dropped",
		"crash-claim": "crash, duplicate dropped",
		"claim-lease": "claimed, crash, claim recovered, sent, done",
		"dead-letter": "retry, retry, dead letter",
	}
}

func TestCheck_refuses_a_crash_at_a_claim_that_is_not_made(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"crash-claim", "claim-lease"} {
		for _, settings := range allSettings() {
			if err := named(t, name).Check(settings); (err == nil) != settings.Idempotency {
				t.Errorf("%s, %s: %v", name, settingsName(settings), err)
			}
		}
	}
}

// TestLessons_agree plays the crashes four at once, each again and again, and
// compares all that was found. (JasperFx/wolverine#3795)
func TestLessons_agree(t *testing.T) {
	t.Parallel()
	const rounds = 10
	lessons := []string{"crash", "idempotency", "crash-claim", "claim-lease"}
	together(t, len(lessons), lessons, strings.Clone, func(t *testing.T, name string) {
		var first string
		for i := range rounds {
			r := newRig(t)
			r.Settings = named(t, name).Settings
			v := r.run(t, named(t, name))
			if v.Status != Held {
				t.Fatal(explain(v))
			}
			found := gist(v)
			if i == 0 {
				first = found
			}
			if found != first {
				t.Fatalf("run %d:\n%sthe first:\n%s", i+1, found, first)
			}
		}
	})
}

// gist is what a verdict says but for what differs between any two runs.
func gist(v Verdict) string {
	var b strings.Builder
	for _, f := range v.Findings {
		if !strings.HasPrefix(f.What, "redis") {
			b.WriteString(strings.ReplaceAll(strings.Join([]string{f.What, f.Want, f.Got}, "; "), v.Namespace, "k7f3") + "\n")
		}
	}
	return b.String()
}

// TestLessons_story holds the text's order: each notification is queued before
// anybody says anything of it, a crash is its worker's last word, and of the one
// behind text has its SENT alone.
func TestLessons_story(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var mu sync.Mutex
	r.Emit = func(e event.Event) {
		if !mu.TryLock() {
			t.Error("two events at once")
			return
		}
		defer mu.Unlock()
		<-time.After(2 * time.Millisecond) // so that another would be seen
		r.story.Add(e)
	}
	v := r.run(t, named(t, "crash"))
	all := r.story.All()
	for _, n := range []string{"-1", "-2"} {
		id := v.Namespace + n
		i := slices.IndexFunc(all, func(e event.Event) bool { return e.ID == id && strings.HasPrefix(e.Source, push) })
		q := slices.IndexFunc(all, func(e event.Event) bool { return e.ID == id && e.Kind == event.Queued })
		if q < 0 || i < q {
			t.Errorf("%s is queued at %d, and a worker speaks of it at %d", id, q, i)
		}
	}
	crash := slices.IndexFunc(all, func(e event.Event) bool { return e.Kind == event.Crash })
	if after, _ := next(all[crash+1:], func(e event.Event) bool { return e.PID == all[crash].PID && e.PID != 0 }); after.Kind != "" {
		t.Errorf("the dead worker says %s", after.Kind)
	}
	for _, e := range all {
		if e.ID == v.Namespace+"-2" && e.Detail == (e.Kind == event.Sent) {
			t.Errorf("%s of the one behind it: detail %v", e.Kind, e.Detail)
		}
	}
}

// TestStage_sink holds back what a worker says of a message until the broker's word
// for it was passed on.
func TestStage_sink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{Config: Config{Emit: func(event.Event) {}}, queuing: map[Subject]chan struct{}{}}
		queued := s.queue(Subject{one().ID, push})
		go s.sink(said(one(), push, event.Received))
		s.sink(said(two(), push, event.Received))
		synctest.Wait()
		if all := s.history.All(); len(all) != 1 || all[0].ID != two().ID {
			t.Errorf("%v", all)
		}
		close(queued)
		synctest.Wait()
		if n := s.history.Len(); n != 2 {
			t.Errorf("%d events", n)
		}
	})
}
