package scenario

import "notifylab/internal/event"

// Outcome is what became of a notification on a channel.
type Outcome string

const (
	Once    Outcome = "once"
	Twice   Outcome = "twice"   // or more often
	Lost    Outcome = "lost"    // confirmed, never accepted, and nowhere left
	Parked  Outcome = "parked"  // among the dead letters
	Unknown Outcome = "unknown" // neither accepted nor parked, and still somewhere
)

// Outcomes lists those that can be expected.
func Outcomes() []Outcome { return []Outcome{Once, Twice, Lost, Parked} }

// outcome names what the ledger says.
func outcome(accepted int, parked, left bool) Outcome {
	switch {
	case accepted == 1:
		return Once
	case accepted > 1:
		return Twice
	case parked:
		return Parked
	case left:
		return Unknown
	}
	return Lost
}

// State is the state of a record: that of [idem.State], or none.
type State string

const (
	NoRecord State = "none"
	Claimed  State = "claimed"
	Pending  State = "pending"
	Done     State = "done"
)

// remembered returns what the record of a notification says once it was sent.
func remembered(s event.Settings) State {
	switch {
	case !s.Idempotency:
		return NoRecord
	case !s.ClaimLease:
		return Claimed
	}
	return Done
}

// leased says whether claims are for a lease.
func leased(s event.Settings) bool { return s.Idempotency && s.ClaimLease }
