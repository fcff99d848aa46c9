package lab

import (
	"slices"
	"strings"
	"testing"
	"time"

	"notifylab/internal/servers/serverstest"
)

// Streams are overdue when their time has passed, on Redis's clock, and not when they
// were returned.
func TestStreams(t *testing.T) {
	t.Parallel()
	c, _ := dial(t)
	s, mine := NewStreams(c), serverstest.Namespace(t)
	overdue := func() (names []string) {
		t.Helper()
		all, err := s.Overdue(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range all {
			if bare, ok := strings.CutPrefix(name, mine+"."); ok {
				names = append(names, bare)
			}
		}
		slices.Sort(names)
		return names
	}
	for name, after := range map[string]time.Duration{"late": -time.Second, "later": -time.Minute, "running": time.Hour} {
		if err := s.Lend(soon(t), after, mine+"."+name); err != nil {
			t.Fatal(err)
		}
	}
	if got := overdue(); !slices.Equal(got, []string{"late", "later"}) {
		t.Errorf("overdue: %v", got)
	}
	if err := s.Returned(soon(t), mine+".late"); err != nil {
		t.Fatal(err)
	}
	if got := overdue(); !slices.Equal(got, []string{"later"}) {
		t.Errorf("after one was returned: %v", got)
	}
	if err := s.Returned(soon(t), mine+".later", mine+".running", mine+".never-lent"); err != nil {
		t.Error(err)
	}
	if err := s.Returned(soon(t)); err != nil {
		t.Error(err)
	}
	if got := overdue(); len(got) > 0 {
		t.Errorf("after all were returned: %v", got)
	}
}
