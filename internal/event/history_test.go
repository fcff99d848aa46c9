package event_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"notifylab/internal/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func is(id string) func(event.Event) bool { return func(e event.Event) bool { return e.ID == id } }

func TestHistory_Await(t *testing.T) {
	t.Parallel()
	t.Run("finds what has happened, even if there is no time to wait", func(t *testing.T) {
		t.Parallel()
		var h event.History
		h.Add(event.Event{ID: "a", Kind: event.Queued})
		h.Add(event.Event{ID: "a", Kind: event.Sent})
		over, cancel := context.WithCancel(soon(t))
		cancel()
		if e, err := h.Await(over, is("a")); err != nil || e.Kind != event.Queued {
			t.Errorf("got %+v, %v, want the first", e, err)
		}
	})
	t.Run("finds what happens while it looks", func(t *testing.T) {
		t.Parallel()
		var h event.History
		h.Add(event.Event{ID: "first"})
		e, err := h.Await(soon(t), func(e event.Event) bool {
			if e.ID == "first" {
				h.Add(event.Event{ID: "second"}) // after the look, before the wait
			}
			return e.ID == "second"
		})
		if err != nil || e.ID != "second" {
			t.Errorf("got %+v, %v", e, err)
		}
	})
	t.Run("looks at each event once", func(t *testing.T) {
		t.Parallel()
		var h event.History
		var seen []string
		for i := range 3 {
			h.Add(event.Event{ID: fmt.Sprint(i)})
		}
		_, err := h.Await(soon(t), func(e event.Event) bool {
			seen = append(seen, e.ID)
			if n := len(seen); n >= 3 && n < 6 {
				h.Add(event.Event{ID: fmt.Sprint(n)})
			}
			return e.ID == "5"
		})
		if got := strings.Join(seen, ""); err != nil || got != "012345" {
			t.Errorf("saw %s, %v", got, err)
		}
	})
	t.Run("from a place on leaves out what was before", func(t *testing.T) {
		t.Parallel()
		var h event.History
		h.Add(event.Event{ID: "a", Kind: event.Sent})
		n := h.Len()
		h.Add(event.Event{ID: "a", Kind: event.Acked})
		if e, err := h.AwaitFrom(soon(t), n, is("a")); err != nil || e.Kind != event.Acked {
			t.Errorf("got %+v, %v", e, err)
		}
	})
	t.Run("says why it gave up and what was last", func(t *testing.T) {
		t.Parallel()
		why := errors.New("the supervisor ended")
		ctx, cancel := context.WithCancelCause(soon(t))
		cancel(why)
		var h event.History
		if _, err := h.Await(ctx, is("a")); !errors.Is(err, why) || !strings.Contains(err.Error(), "last: none") {
			t.Errorf("got %v", err)
		}
		h.Add(event.Event{Source: "push-worker-1", Kind: event.Claimed, ID: "b"})
		if _, err := h.Await(ctx, is("a")); !errors.Is(err, why) || !strings.Contains(err.Error(), "last: push-worker-1 claimed b") {
			t.Errorf("got %v", err)
		}
	})
}

// Many add, many wait for each of the events: nobody waits in vain, and what
// one adds stays in its order.
func TestHistory_with_concurrent_adds(t *testing.T) {
	t.Parallel()
	const adders, each = 8, 200
	var h event.History
	var all sync.WaitGroup
	for a := range adders {
		all.Go(func() {
			for i := range each {
				h.Add(event.Event{Source: fmt.Sprint(a), Attempt: i})
			}
		})
		for range 3 {
			all.Go(func() {
				last := 0
				_, err := h.Await(soon(t), func(e event.Event) bool {
					if e.Source == fmt.Sprint(a) {
						if e.Attempt != last {
							t.Errorf("adder %d: saw event %d, want %d", a, e.Attempt, last)
						}
						last++
					}
					return last == each
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Go(func() { // one that chases the end
			for n := 0; n < adders*each; n++ {
				if _, err := h.AwaitFrom(soon(t), n, func(event.Event) bool { return true }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if n, list := h.Len(), h.All(); n != adders*each || len(list) != n {
		t.Errorf("length %d, %d events, want %d", n, len(list), adders*each)
	}
}

func TestHistory_All_is_a_copy(t *testing.T) {
	t.Parallel()
	var h event.History
	h.Add(event.Event{ID: "a"})
	h.All()[0].ID = "changed"
	if got := h.All()[0].ID; got != "a" {
		t.Errorf("got %q", got)
	}
}
