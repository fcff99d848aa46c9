package supervise

import (
	"testing"
	"time"
)

// Supervisor/supervisor#1285
func TestPolicy_first_restart_is_at_once_then_waits_double_up_to_the_maximum(t *testing.T) {
	t.Parallel()
	want := []time.Duration{
		0, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond,
		1600 * time.Millisecond, 3200 * time.Millisecond, 6400 * time.Millisecond, 12800 * time.Millisecond,
		25600 * time.Millisecond, 30 * time.Second, 30 * time.Second,
	}
	for i, w := range want {
		if got := DefaultPolicy().wait(i + 1); got != w {
			t.Errorf("wait before restart %d: %s, want %s", i+1, got, w)
		}
	}
	if got := DefaultPolicy().wait(1 << 30); got != 30*time.Second {
		t.Errorf("wait after a very long row: %s", got)
	}
}

func TestPolicy_without_a_maximum_a_row_never_ends(t *testing.T) {
	t.Parallel()
	if DefaultPolicy().exhausted(1 << 30) {
		t.Error("gave up without a maximum")
	}
	p := Policy{MaxRestarts: 2}
	if p.exhausted(1) || !p.exhausted(2) {
		t.Errorf("maximum 2: exhausted after 1: %t, after 2: %t", p.exhausted(1), p.exhausted(2))
	}
}
