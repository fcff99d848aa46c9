package passes

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
)

// A Point is a named place in the handling of an event at which the process can be
// made to die, or to stop.
type Point string

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

// An Arming is what a record's header says about one crash point:
// POINT[,stop][,always].
type Arming struct {
	Point  Point
	Stop   bool // stop and go on when woken, instead of dying
	Always bool // each time, instead of once per event and group
}

// ParseArming reads POINT[,stop][,always] of one of these points; its error lists them.
func ParseArming(s string, points []Point) (Arming, error) {
	words := strings.Split(s, ",")
	a := Arming{Point: Point(words[0])}
	if !slices.Contains(points, a.Point) {
		return Arming{}, fmt.Errorf("no crash point %q: there are %v", words[0], points)
	}
	for _, w := range words[1:] {
		switch w {
		case "stop":
			a.Stop = true
		case "always":
			a.Always = true
		default:
			return Arming{}, fmt.Errorf("crash point %s: %q is neither stop nor always", words[0], w)
		}
	}
	return a, nil
}

// A trap is a crash point that one event has armed, for one who handles it.
type trap struct {
	Arming
	marks *lab.Marks // nil: only what fires always does
	id    string     // of the event
	who   string     // a group, a reaction: each has it fire once
}

// fires says whether the trap is at p and fires now, and marks in Redis that it did:
// nothing else tells whether somebody has been here before. Note is told why it does
// not fire where it should.
func (t trap) fires(p Point, note func(string)) bool {
	if t.Point != p || t.Always {
		return t.Point == p
	}
	if t.marks == nil {
		note("crash point " + string(p) + " does not fire: there is nothing to mark it in")
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*idem.Timeout)
	defer cancel()
	// Whoever reacts to an event is to it what a channel's workers are to a notification.
	first, err := t.marks.First(ctx, t.id, notify.Channel(t.who), string(p))
	if err != nil {
		note("crash point " + string(p) + " does not fire: " + err.Error())
	}
	return first
}
