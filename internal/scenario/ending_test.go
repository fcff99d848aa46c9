package scenario

import (
	"strings"
	"testing"

	"notifylab/internal/event"
)

// TestJourney tells stories of one message. Each is over with its last word, and
// not before: w1 and w2 are workers, a star is a redelivery, and what is done to a worker
// at another message has a plus.
func TestJourney(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		story string
		early bool
		ends  int // how often it seems to be over before its last word
	}{
		"settled":             {story: "queued w1:received w1:sent w1:acked"},
		"a fast provider":     {story: "provider:accepted queued w1:received w1:sent w1:acked"},
		"killed":              {story: "queued w1:received w1:crash w1:received* w1:sent w1:acked"},
		"killed after copy":   {story: "queued w1:received w1:retry w1:crash w1:received* w1:retry w1:acked w1:received w1:dead_letter w1:acked w1:received w1:dead_letter w1:acked"},
		"twins":               {story: "queued queued w1:received w1:acked w2:received w2:acked"},
		"retried":             {story: "queued w1:received w1:retry w1:acked w1:received w1:dead_letter w1:acked"},
		"stopped, dropped":    {story: "queued w1:received w1:stopped w2:received* w2:acked w1:woke w1:sent w1:dropped"},
		"stopped, acked late": {story: "queued w1:received w1:stopped w2:received* w2:acked w1:woke w1:acked"},
		"stopped, a copy on":  {story: "queued w1:received w1:retry w1:stopped w2:received* w2:retry w2:acked w1:woke w1:acked w2:received w2:dead_letter w2:acked w2:received w2:dead_letter w2:acked"},
		"a stop too short":    {story: "queued w1:received w1:stopped w1:woke w1:sent w1:acked"},
		"twins, one stopped":  {story: "queued queued w1:received w1:stopped w2:received w2:acked w1:woke w1:acked"},
		"twins, two waiting":  {story: "queued queued w1:received w1:stopped w2:received w3:received* w2:acked w1:woke w1:dropped w3:acked"},

		// After the ack it is nobody's message, and a stopped worker still to be waited for.
		"killed after the ack":  {story: "queued w1:received w1:sent w1:acked w1:crash", ends: 1},
		"stopped after the ack": {story: "queued w1:received w1:sent w1:acked w1:stopped w1:woke", ends: 1},

		// In hand when something was done at another's point.
		"killed beside":        {story: "queued w1:received w1:crash+ w1:received* w1:sent w1:acked"},
		"stopped beside":       {story: "queued w1:received w1:stopped+ w2:received* w2:acked w1:unknown w1:dropped"},
		"not in hand":          {story: "queued w1:crash+ w1:received w1:stopped+ w2:received* w2:acked w1:dropped"},
		"early, killed beside": {early: true, story: "queued w1:received w1:acked w1:crash+"},

		"early":                   {early: true, story: "queued w1:received w1:acked w1:sent"},
		"early, killed":           {early: true, story: "queued w1:received w1:acked w1:crash"},
		"early, refused":          {early: true, story: "queued w1:received w1:acked w1:retry w2:received w2:acked w2:dead_letter"},
		"early, stopped":          {early: true, story: "queued w1:received w1:acked w1:stopped w1:woke w1:sent"},
		"early, stopped, unknown": {early: true, story: "queued w1:received w1:acked w1:stopped w1:woke w1:unknown w1:retry w1:received w1:acked w1:sent"},
		"early, stopped at last":  {early: true, story: "queued w1:received w1:acked w1:sent w1:stopped w1:woke", ends: 1},
	} {
		way := newJourney(tt.early)
		words := strings.Fields(tt.story)
		ends := 0
		for i, word := range words {
			way.tell(word)
			over := way.over()
			switch {
			case i == len(words)-1 && !over:
				t.Errorf("%s: not over", name)
			case i < len(words)-1 && over:
				ends++
			}
		}
		if ends != tt.ends {
			t.Errorf("%s: over %d times before its end, want %d", name, ends, tt.ends)
		}
	}
}

// TestJourney_asleep: nobody has it in hand but who was stopped with it.
func TestJourney_asleep(t *testing.T) {
	t.Parallel()
	for story, asleep := range map[string]bool{
		"queued":                        false,
		"queued w1:received w1:stopped": false,
		"queued w1:received w1:stopped w2:received*":                                        false,
		"queued w1:received w1:stopped w2:received* w2:acked":                               true,
		"queued w1:received w1:stopped+ w2:received* w2:acked":                              true,
		"queued w1:received w1:retry w1:stopped w2:received* w2:acked":                      false,
		"queued w1:received w1:retry w1:stopped w2:received* w2:acked w2:received w2:acked": true,
		"queued w1:received w1:sent w1:acked w1:stopped":                                    true,
		"queued queued w1:received w1:stopped w2:received w2:acked":                         false,
		"queued queued w1:received w1:stopped w2:received w2:acked w2:received* w2:acked":   true,
		"queued w1:received w1:stopped w2:received* w2:acked w1:woke w1:sent w1:dropped":    true, // and over
		"queued w1:received w1:stopped+ w2:received* w2:acked w2:received*":                 false,
		"queued w1:received w1:crash+ w1:received* w1:sent":                                 false,
	} {
		way := newJourney(false)
		for _, word := range strings.Fields(story) {
			way.tell(word)
		}
		if way.asleep() != asleep {
			t.Errorf("%s: asleep %v", story, !asleep)
		}
	}
}

// tell passes a word on as the stage does.
func (j *journey) tell(word string) {
	bare := strings.TrimSuffix(word, "+")
	e := word2event(bare)
	if e.Kind == event.Crash || e.Kind == event.Stopped {
		j.with(e)
	}
	if bare == word {
		j.next(e)
	}
}

func word2event(word string) event.Event {
	source, kind, ok := strings.Cut(word, ":")
	if !ok {
		source, kind = "producer", source
	}
	bare := strings.TrimSuffix(kind, "*")
	return event.Event{Kind: event.Kind(bare), Source: source, Redelivered: bare != kind}
}
