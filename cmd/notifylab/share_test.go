package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/provider"
)

// Eight workers of one queue, each with little in hand: none sends less than half of
// what it would if all sent the same, or half more. One that takes less than the others
// does, which shows that the others could be found out.
func TestSupervise_shares_a_queue(t *testing.T) {
	t.Parallel()
	const workers = 8
	few := []string{"--events", "summary", "--journal", "off", "--idempotency", "on", "--claim-lease", "on", "--prefetch", "4", "--concurrency", "4"}
	t.Run("among eight that are alike", func(t *testing.T) {
		t.Parallel()
		// It takes so long that who stands still for a second or two has his share yet.
		poor, sent := shareOut(t, workers, 200*time.Millisecond, few)
		if len(poor) > 0 {
			t.Errorf("%q have less than half of their share: %v", poor, sent)
		}
		for name, n := range sent {
			if n > shared/workers*3/2 {
				t.Errorf("%s has more than half more than its share: %v", name, sent)
			}
		}
	})
	t.Run("not with one that takes less", func(t *testing.T) {
		t.Parallel()
		poor, sent := shareOut(t, workers-1, 20*time.Millisecond, few, "--prefetch", "1", "--concurrency", "1")
		if want := []string{"push-worker-8"}; !slices.Equal(poor, want) {
			t.Errorf("%q have less than half of their share, want %q: %v", poor, want, sent)
		}
	})
}

// shared is how many messages are shared out.
const shared = 800

// shareOut has so many workers, and one more with other flags, if there are any, send
// what is published while all are there, to a provider that takes delay for each. It
// returns how many each sent, by their own events, and who sent less than half of an
// even share.
func shareOut(t *testing.T, workers int, delay time.Duration, flags []string, others ...string) (poor []string, sent map[string]int) {
	t.Helper()
	c := newCorner(t)
	// They wait for the provider and not for this machine.
	p := provider.New(provider.Options{Faults: provider.Faults{Delay: []provider.Delay{{For: delay}}}})
	listening, err := p.Listen("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listening.Close(context.Background()) })
	flags = append([]string{"--provider-url", listening.URL()}, flags...)
	all := []*running{c.start(append([]string{"supervise", fmt.Sprintf("push=%d", workers), "-o", "json", "--"}, flags...)...)}
	all[0].awaitLines(workers, `"ready"`)
	if len(others) > 0 {
		r := c.start(slices.Concat([]string{"worker", "push", "-o", "json"}, flags, others)...)
		r.awaitLine(`"ready"`)
		all, workers = append(all, r), workers+1
	}
	c.run("produce", "--channel", "push", "--count", strconv.Itoa(shared)).wantStatus(0)
	if err := p.Await(patience(t), func(l *provider.Ledger) bool { return l.Count(event.Accepted) == shared }); err != nil {
		t.Fatal(err)
	}
	sent = map[string]int{}
	for i := range workers {
		sent[fmt.Sprintf("push-worker-%d", i+1)] = 0
	}
	kinds, ids, total := map[event.Kind]int{}, map[string]bool{}, 0
	for _, r := range all {
		r.stop()
		for _, e := range r.events() {
			kinds[e.Kind]++
			if e.Kind == event.Sent {
				ids[e.ID] = true
				sent[e.Source]++
				total++
			}
		}
	}
	if len(sent) != workers || len(ids) != shared || total != shared {
		t.Errorf("%d of %d sent, %d times: %v, %v", len(ids), shared, total, sent, kinds)
	}
	for name, n := range sent {
		if n < shared/workers/2 {
			poor = append(poor, name)
		}
	}
	slices.Sort(poor)
	t.Logf("%v", sent)
	return poor, sent
}
