package idem

import (
	"fmt"
	"strings"
)

// State is what a record says of its notification.
type State string

const (
	Claimed State = "claimed" // somebody has it, for good: lesson 4's gap
	Pending State = "pending" // somebody has it, for a lease
	Done    State = "done"    // it was sent
)

// A Record is the value of a key.
type Record struct {
	State       State
	Owner       Owner
	Nonce       string // of one handling of one delivery
	Fingerprint string // of what the person would see
}

func (r Record) String() string {
	return string(r.State) + " " + r.Owner.String() + " " + r.Nonce + " " + r.Fingerprint
}

// ParseRecord reads a value that [Record.String] made, and nothing else: what it
// accepts is written again as the same text.
func ParseRecord(value string) (Record, error) {
	f := strings.Split(value, " ")
	if len(f) != 4 {
		return Record{}, fmt.Errorf("record %q: not <state> <owner> <nonce> <fingerprint>", value)
	}
	owner, err := ParseOwner(f[1])
	if err != nil {
		return Record{}, fmt.Errorf("record %q: %w", value, err)
	}
	r := Record{State: State(f[0]), Owner: owner, Nonce: f[2], Fingerprint: f[3]}
	switch r.State {
	case Claimed, Pending, Done:
		return r, nil
	}
	return Record{}, fmt.Errorf("record %q: no state %q", value, f[0])
}
