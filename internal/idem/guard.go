package idem

import "strings"

// A Guard is a step of the protocol that a store can be told to leave out, to show
// what it is for.
type Guard string

const (
	NX            Guard = "nx"              // a claim is written only where there is no record
	CompareAndSet Guard = "compare-and-set" // a script leaves alone what is somebody else's
)

// Without takes a guard away from the store; one that it does not have leaves all
// of its own. It is for whoever has just made the store.
func (s *Store) Without(g Guard) *Store {
	switch g {
	case NX:
		s.only = nil
	case CompareAndSet:
		s.complete, s.release, s.take = newScript(blind(completeLua)), newScript(blind(releaseLua)), newScript(blind(takeLua))
	}
	return s
}

// blind returns a script without the line in which it compares.
func blind(script string) string {
	var lines strings.Builder
	for line := range strings.Lines(script) {
		if !strings.HasSuffix(line, "then return now end\n") {
			lines.WriteString(line)
		}
	}
	return lines.String()
}
