package scenario

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/supervise"
)

// While the push worker stands still the provider gets done with the slow email. That
// shows nothing of push, so the act is played again, and what it says of the last one is
// what counts.
func TestFanOut_on_a_machine_that_stands_still(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tell, push := r.Emit, 0
	signal := func(s unix.Signal) {
		if err := unix.Kill(push, s); err != nil {
			t.Error(err)
		}
	}
	r.Emit = func(e event.Event) { // of one at a time
		email := e.Kind == event.Sent && e.Channel == string(notify.Email)
		switch {
		case e.Kind == event.Ready && e.Channel == string(notify.Push):
			push = e.PID
		case email && strings.HasSuffix(e.ID, "-2"):
			signal(unix.SIGSTOP)
			if err := supervise.AwaitStopped(t.Context(), push); err != nil { // on a busy machine not at once
				t.Error(err)
			}
		case email && strings.HasSuffix(e.ID, "-3"):
			signal(unix.SIGCONT)
		}
		tell(e)
	}
	v := r.run(t, named(t, "fan-out"))
	if v.Status != Held || v.Outcome != Once {
		t.Error(explain(v))
	}
	for id, want := range map[string]int{"-3": 2, "-4": 2, "-5": 0} {
		sent := 0
		for _, e := range v.Events {
			if e.Kind == event.Sent && strings.HasSuffix(e.ID, id) {
				sent++
			}
		}
		if sent != want {
			t.Errorf("%d sent of %s, want %d", sent, id, want)
		}
	}
	r.left(t, nothing)
}
