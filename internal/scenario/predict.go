package scenario

import (
	"fmt"
	"slices"
	"strconv"

	"notifylab/internal/event"
	"notifylab/internal/worker"
)

// A Fault is what is done to a worker at a crash point.
type Fault string

const (
	// Kill: it dies, and starts again.
	Kill Fault = "kill"
	// Stop: it is stopped, for so long that the broker forgets it and another has
	// taken care of what it had in hand, and then goes on.
	Stop Fault = "stop"
	// Twins: there are two copies of the message, and the worker with the first one
	// is stopped until the second one's has the record.
	Twins Fault = "twins"
)

// Faults lists them.
func Faults() []Fault { return []Fault{Kill, Stop, Twins} }

// A Prediction is what the protocol makes of a message to whose worker something
// is done at one of its crash points, once.
type Prediction struct {
	Accepted    int  // how often the provider accepts it
	OrTwice     bool // or once more: chance decides
	Late        bool // it is accepted after the broker has forgotten it: had the worker not woken, lost
	Outcome     Outcome
	Lines       []event.Kind // what the workers say of it, in this order, among other things
	Redelivered bool         // whether the broker hands it over again
	Record      State        // what its record says in the end; empty: chance decides
	Why         string
}

// String is the prediction as a cell of the matrix has it.
func (p Prediction) String() string {
	switch {
	case p.Outcome == Parked:
		return string(Parked)
	case p.OrTwice:
		return fmt.Sprintf("%d or %d", p.Accepted, p.Accepted+1)
	}
	return cellText(p.Accepted, p.Outcome, p.Late)
}

func cellText(accepted int, o Outcome, late bool) string {
	text := strconv.Itoa(accepted)
	switch {
	case o == Lost, o == Parked, o == Unknown:
		text += " " + string(o)
	case late:
		text += " late"
	}
	return text
}

// allows says whether the provider may have accepted it that often.
func (p Prediction) allows(accepted int) bool {
	return accepted == p.Accepted || p.OrTwice && accepted == p.Accepted+1
}

// Predict derives what becomes of a message when fault is done at p to the worker
// that handles it, under these settings. It is an error if there is no such place.
// One that is refused comes to the places around a copy, and one that is accepted
// to all others.
func Predict(s event.Settings, p worker.Point, fault Fault) (Prediction, error) {
	if err := nowhere(s, p, fault); err != nil {
		return Prediction{}, err
	}
	switch {
	case fault == Twins:
		return predictTwins(p), nil
	case aroundCopy(p):
		return predictCopy(p, fault), nil
	}
	return courseOf(s, p, fault).prediction(), nil
}

// nowhere says why a message never comes there.
func nowhere(s event.Settings, p worker.Point, fault Fault) error {
	early := s.Ack == "early"
	switch {
	case early && !slices.Contains([]worker.Point{worker.AfterReceive, worker.BeforeSend, worker.MidSend, worker.AfterSend}, p):
		return fmt.Errorf("crash point %s: with ack early there is nothing to see there", p)
	case p == worker.AfterClaim && !s.Idempotency:
		return fmt.Errorf("crash point %s: there is no claim with idempotency off", p)
	case fault == Twins && (early || !leased(s) || s.ProviderKey || p != worker.AfterClaim && p != worker.MidSend):
		return fmt.Errorf("crash point %s: twins show something after-claim and mid-send, with a lease and no key", p)
	}
	return nil
}

func aroundCopy(p worker.Point) bool { return p == worker.BeforeCopy || p == worker.AfterCopy }

// A course is what happens, one after the other: a first handling up to the point;
// a second one by whoever is handed the message then; and, of a worker that was
// stopped, the rest of the first.
type course struct {
	settings event.Settings
	point    worker.Point
	fault    Fault
	early    bool

	// What the first handling has left behind.
	recorded, accepted, answered, done, acked bool
	// Whether the others call the provider.
	second, woken bool
}

// courseOf derives it. The first handling has been accepted from mid-send on. What
// the second does is up to the record that it finds: none (it sends), a claim for
// good (it drops), a lease (it sends, at once if its owner is dead, else when it has
// ended), or done (it drops). Whoever wakes asks for the record if it has not yet
// claimed it, and nobody if it has. But it sends nothing when its lease is over, and
// that it is: another had to wait for its end. After the clock check it is the send's
// own deadline that says so.
func courseOf(s event.Settings, p worker.Point, fault Fault) course {
	c := course{point: p, fault: fault, early: s.Ack == "early"}
	if !c.early { // which is none, whatever the settings say
		c.settings = s
	}
	at := func(points ...worker.Point) bool { return slices.Contains(points, p) }
	c.recorded = c.settings.Idempotency && !at(worker.AfterReceive)
	c.accepted = at(worker.MidSend, worker.AfterSend, worker.BeforeAck, worker.AfterAck)
	c.answered = c.accepted && !at(worker.MidSend)
	c.done = leased(c.settings) && at(worker.BeforeAck, worker.AfterAck)
	c.acked = c.early || at(worker.AfterAck)

	c.second = !c.acked && (!c.recorded || leased(c.settings) && !c.done)
	c.woken = fault == Stop && !c.accepted && (!c.settings.Idempotency || c.recorded && !leased(c.settings))
	return c
}

func (c course) prediction() Prediction {
	p := Prediction{
		Late:        c.woken && !c.second,
		Lines:       c.lines(),
		Redelivered: !c.acked,
		Record:      c.record(),
		// Whoever wakes with an answer to read may find that its time is over
		// instead. That is unknown and tried again; without a session only what was
		// acked early can be.
		OrTwice: c.early && c.fault == Stop && c.point == worker.MidSend,
	}
	for _, sends := range []bool{c.accepted, c.second, c.woken} {
		if sends && !(p.Accepted > 0 && c.settings.ProviderKey) { // which makes any other no more than a question
			p.Accepted++
		}
	}
	p.Outcome = outcome(p.Accepted, false, false)
	p.Why = c.why(p.Outcome)
	return p
}

// record is what the record says in the end.
func (c course) record() State {
	if c.settings.Idempotency && !c.settings.ClaimLease && c.fault == Stop && c.point == worker.MidSend {
		return "" // an answer that comes too late is unknown, and releases the claim
	}
	return remembered(c.settings)
}
