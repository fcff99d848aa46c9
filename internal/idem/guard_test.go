package idem

import (
	"strings"
	"testing"

	"notifylab/internal/notify"
)

// Without a guard a store writes over what is somebody else's; with it, and with
// the other one, it does not.
func TestStore_Without(t *testing.T) {
	t.Parallel()
	for _, without := range []Guard{"", NX, CompareAndSet, "clock"} {
		l := newLab(t)
		c := l.worker(l.redis).Without(without).Claim(hello, notify.Push, true)
		theirs := c.Mine()
		theirs.Nonce, theirs.State = "theirs", Done
		put := func() { l.put(c.Key(), theirs.String(), testRetention) }
		put()
		verdict := Duplicate
		if without == NX {
			verdict = Acquired
		}
		attempt(t, "try without "+string(without), c.Try, verdict)

		put()
		verdict = Duplicate
		if without == CompareAndSet {
			verdict = Acquired
		}
		attempt(t, "again without "+string(without), c.Again, verdict)

		for name, end := range map[string]func() (bool, error){
			"complete": func() (bool, error) { return c.Complete(soon(t)) },
			"release":  func() (bool, error) { return c.Release(soon(t)) },
		} {
			put()
			if ours, err := end(); err != nil || ours != (without == CompareAndSet) {
				t.Errorf("%s without %q: ours %v, %v", name, without, ours, err)
			}
		}
	}
}

// Each script compares in one line, and has it no more.
func TestBlind(t *testing.T) {
	t.Parallel()
	for _, script := range []string{completeLua, releaseLua, takeLua} {
		if got, want := strings.Count(blind(script), "\n"), strings.Count(script, "\n")-1; got != want {
			t.Errorf("%d lines, want %d:\n%s", got, want, blind(script))
		}
	}
}
