package scenario

import (
	"slices"
	"time"
)

// What can have a message sent again in a soak, and which second sends that leaves
// without a cause.

// inHand is how long what was accepted can be in its worker's hand before it is settled,
// and how late it can be accepted after its death: Redis and RabbitMQ may be restarted
// meanwhile, on a machine that is busy.
const inHand = 30 * time.Second

// A cause can explain so many second acceptances.
type cause struct {
	what interruptionKind
	pid  int           // whose death, session, or UNKNOWN
	at   time.Duration // since the beginning
	room int
	has  []int // which it explains
}

// explains says whether the cause can be one of this second acceptance.
func (c *cause) explains(s sentAgain) bool {
	inItsHand := (s.before - c.at).Abs() <= inHand
	switch c.what {
	case unansweredSend: // by one whose call was accepted all the same
		return slices.Contains(s.callers, c.pid) && c.at <= s.at
	case sessionEnd: // the broker may know of it first
		return slices.Contains(s.hands, c.pid) && inItsHand
	}
	// The dead one's call can have been the second: accepted late, when another had
	// taken the message over.
	late := s.caller == c.pid && s.before+time.Millisecond > c.at
	return c.at <= s.at && inItsHand && (slices.Contains(s.hands, c.pid) || late)
}

// causes are all that there were: of what happened to a worker, by its pid, and of
// UNKNOWNs, by the message.
type causes struct {
	of      map[int][]*cause
	unknown map[numbered][]*cause
}

func causesIn(e soakEnd, a allowance) causes {
	all := causes{map[int][]*cause{}, map[numbered][]*cause{}}
	for _, i := range e.harm {
		c := &cause{what: i.what, pid: i.pid, at: i.from.Sub(e.began)}
		switch i.what {
		case sessionEnd:
			c.room = a.session
		case workerKilled, workerDied:
			c.room = a.kill
			for _, before := range all.of[i.pid] { // whose handlers went on, beside those of the next
				if before.what == sessionEnd && before.at >= c.at-inHand {
					c.room += a.kill
				}
			}
		default:
			continue
		}
		all.of[i.pid] = append(all.of[i.pid], c)
	}
	if !a.unknown {
		return all
	}
	for about, said := range e.unanswered {
		for _, i := range said {
			all.unknown[about] = append(all.unknown[about], &cause{what: i.what, pid: i.pid, at: i.from.Sub(e.began), room: 1})
		}
	}
	return all
}

// open are those that may be a cause of a second acceptance.
func (all causes) open(s sentAgain) []*cause {
	open := slices.Clone(all.unknown[s.numbered])
	for _, pid := range append([]int{s.caller}, s.hands...) {
		open = append(open, all.of[pid]...)
	}
	return slices.DeleteFunc(open, func(c *cause) bool { return !c.explains(s) })
}

// unexplained returns the second acceptances for which no cause is left, whichever
// cause each of the others has.
func unexplained(e soakEnd, a allowance) []sentAgain {
	all := causesIn(e, a)
	var without []sentAgain
	// As in any matching: if each that it could have has enough already, one of those
	// may have another.
	var place func(n int, seen map[*cause]bool) bool
	place = func(n int, seen map[*cause]bool) bool {
		for _, c := range all.open(e.again[n]) {
			if seen[c] {
				continue
			}
			seen[c] = true
			if len(c.has) < c.room {
				c.has = append(c.has, n)
				return true
			}
			for i, other := range c.has {
				if place(other, seen) {
					c.has[i] = n
					return true
				}
			}
		}
		return false
	}
	for n, s := range e.again {
		if !place(n, map[*cause]bool{}) {
			without = append(without, s)
		}
	}
	return without
}
