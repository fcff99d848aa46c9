package worker

import (
	"fmt"
	"slices"
	"strings"
)

// A Point is a named place in the handling of a delivery at which the worker can
// be made to die, or to stop.
type Point string

const (
	AfterReceive Point = "after-receive" // before anything but the early ack
	AfterClaim   Point = "after-claim"   // the record is written
	BeforeSend   Point = "before-send"   // the clock check is passed
	MidSend      Point = "mid-send"      // the first byte of the answer is there, unread
	AfterSend    Point = "after-send"    // the answer is read, the record not yet done
	BeforeAck    Point = "before-ack"    // the record is done
	AfterAck     Point = "after-ack"     // the broker has the ack
	BeforeCopy   Point = "before-copy"   // of a retry or a dead letter
	AfterCopy    Point = "after-copy"    // it is confirmed, the original not yet acked
)

// Points lists the crash points in the order in which a delivery meets them.
func Points() []Point {
	return []Point{AfterReceive, AfterClaim, BeforeSend, MidSend, AfterSend, BeforeAck, AfterAck, BeforeCopy, AfterCopy}
}

// An Arming is what a message's header says about one crash point:
// POINT[,stop][,always].
type Arming struct {
	Point  Point
	Stop   bool // stop (as SIGSTOP does) and go on when woken, instead of dying
	Always bool // each time, instead of once per message and channel
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

// ParseArming reads POINT[,stop][,always]; its error lists the points.
func ParseArming(s string) (Arming, error) {
	words := strings.Split(s, ",")
	a := Arming{Point: Point(words[0])}
	if !slices.Contains(Points(), a.Point) {
		var names []string
		for _, p := range Points() {
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
