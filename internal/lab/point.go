package lab

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Point is a named place in the handling of a message at which the process can be
// made to die, or to stop.
type Point string

// An Arming is what a message says about one crash point: POINT[,stop][,always].
type Arming struct {
	Point  Point
	Stop   bool // stop (as SIGSTOP does) and go on when woken, instead of dying
	Always bool // each time, instead of once per message and whoever handles it
}

func (a Arming) String() string {
	s := string(a.Point)
	if a.Stop {
		s += ",stop"
	}
	if a.Always {
		s += ",always"
	}
	return s
}

// ParseArming reads POINT[,stop][,always] of one of these points; its error lists
// them.
func ParseArming(s string, points []Point) (Arming, error) {
	words := strings.Split(s, ",")
	a := Arming{Point: Point(words[0])}
	if !slices.Contains(points, a.Point) {
		var names []string
		for _, p := range points {
			names = append(names, string(p))
		}
		return Arming{}, fmt.Errorf("no crash point %q: there are %s", words[0], strings.Join(names, ", "))
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

// A Trap is a crash point that one message has armed, for one who handles it.
type Trap struct {
	Arming
	Marks *Marks // nil: only what fires always does
	ID    string // of the message
	Who   string // a channel, a group, a reaction: each has it fire once
}

// markTime is how long a process waits at a crash point for its mark.
const markTime = answerTime + time.Second

// Fires says whether the trap is at p and fires now, and marks in Redis that it did:
// nothing in a message tells whether it has been here before. Note is told why it
// does not fire where it should.
func (t Trap) Fires(p Point, note func(string)) bool {
	if t.Point != p || t.Always {
		return t.Point == p
	}
	if t.Marks == nil {
		note("crash point " + t.String() + " does not fire: there is no Redis to mark it in")
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), markTime)
	defer cancel()
	first, err := t.Marks.First(ctx, t.ID, t.Who, p)
	if err != nil {
		note("crash point " + t.String() + " does not fire: " + err.Error())
	}
	return first
}
