package passes

import (
	"fmt"
	"slices"
	"strings"
)

// A Point is a named place in a member's handling of a record at which it can be made
// to die, or to stop.
type Point string

const (
	AfterRead    Point = "after-read"    // it was read, and nothing done with it
	BeforeCommit Point = "before-commit" // handled; when the commit comes first: read
	AfterCommit  Point = "after-commit"  // when the commit comes first: not yet handled
)

// Points lists the crash points in the order in which a record meets them.
func Points() []Point { return []Point{AfterRead, BeforeCommit, AfterCommit} }

// An Arming is what a record's header says about one crash point:
// POINT[,stop][,always].
type Arming struct {
	Point  Point
	Stop   bool // stop and go on when woken, instead of dying
	Always bool // each time, instead of once per event and group
}

// ParseArming reads POINT[,stop][,always]; its error lists the points.
func ParseArming(s string) (Arming, error) {
	words := strings.Split(s, ",")
	a := Arming{Point: Point(words[0])}
	if !slices.Contains(Points(), a.Point) {
		return Arming{}, fmt.Errorf("no crash point %q: there are %v", words[0], Points())
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
