package passes

import "notifylab/internal/lab"

// A Point is a crash point of whoever handles events.
type Point = lab.Point

// Of a member's handling of a record.

const (
	AfterRead    Point = "after-read"    // it was read, and nothing done with it
	BeforeCommit Point = "before-commit" // handled; when the commit comes first: read
	AfterCommit  Point = "after-commit"  // when the commit comes first: not yet handled
)

// Points lists a member's crash points in the order in which a record meets them.
func Points() []Point { return []Point{AfterRead, BeforeCommit, AfterCommit} }

// Of a reaction's handling of a delivery, by the names that they have in a worker's.
const (
	AfterReceive Point = "after-receive" // nothing was done with it; acked if that comes first
	AfterClaim   Point = "after-claim"   // its record was written, and it was not sent
	BeforeAck    Point = "before-ack"    // all was done
)

// ReactionPoints lists a reaction's crash points in the order in which a delivery
// meets them.
func ReactionPoints() []Point { return []Point{AfterReceive, AfterClaim, BeforeAck} }
