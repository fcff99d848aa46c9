package main

import (
	"fmt"
	"testing"

	"notifylab/internal/event"
)

// However much a worker has in hand when it kills itself: all that it has printed is
// there, the crash's line is the last, and so it is in the journal.
func TestWorker_says_nothing_after_a_crash(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	for round := range 3 {
		c.publishN(150)
		c.run("produce", "--channel", "push", "--id", fmt.Sprint("crash", round), "--crash-at", "before-ack").wantStatus(0)
		c.publishN(150)
		w := c.start("worker", "push", "-o", "json", "--prefetch", "64", "--concurrency", "64")
		w.wait()
		printed := w.events()
		last := printed[len(printed)-1]
		if last.Kind != event.Crash || last.ID != fmt.Sprint("crash", round) || len(of(printed, event.Crash)) != 1 {
			t.Errorf("the last line is %+v", last)
		}
		said := map[string]bool{}
		var journalled []event.Event
		for _, e := range c.journal("--limit", "100000") {
			if e.PID == last.PID {
				journalled = append(journalled, e)
				said[string(event.Encode(e))] = true
			}
		}
		if len(journalled) == 0 {
			t.Fatal("nothing journalled")
		}
		if n := len(journalled); n != len(printed) || journalled[n-1].Kind != event.Crash {
			t.Errorf("%d journalled, %d printed, the last is %+v", n, len(printed), journalled[n-1])
		}
		for _, e := range printed {
			if !said[string(event.Encode(e))] {
				t.Errorf("not in the journal: %+v", e)
			}
		}
	}
}

// A worker that dies at one message's crash point has not been at another's: each is
// said, by the life that dies of it.
func TestWorker_says_each_crash(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	const messages = 4
	c.run("produce", "--channel", "push", "--count", fmt.Sprint(messages), "--crash-at", "after-receive").wantStatus(0)
	died := map[string]bool{}
	for range messages {
		w := c.start("worker", "push", "-o", "json", "--prefetch", "16", "--concurrency", "16")
		w.wait()
		for _, e := range of(w.events(), event.Crash) {
			died[e.ID] = true
		}
	}
	if len(died) != messages {
		t.Errorf("%d of %d crash points were said: %v", len(died), messages, died)
	}
}
