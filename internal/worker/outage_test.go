package worker

import (
	"errors"
	"testing"
	"time"

	"notifylab/internal/event"
)

// An outage is said once. A question that was asked before its end, and whose
// failure comes after it, is no second one.
func TestOutage(t *testing.T) {
	t.Parallel()
	var said []event.Kind
	w := New(Config{Emit: func(e event.Event) { said = append(said, e.Kind) }})
	var o outage
	away := errors.New("away")
	asked := time.Now()
	o.up(w)
	o.down(w, time.Now(), away)
	o.down(w, time.Now(), away)
	o.up(w)
	o.up(w)
	o.down(w, asked, away)
	want := []event.Kind{event.Disconnect, event.Reconnected}
	if len(said) != len(want) {
		t.Fatalf("said %v, want %v", said, want)
	}
	for i := range want {
		if said[i] != want[i] {
			t.Fatalf("said %v, want %v", said, want)
		}
	}
}
