package provider

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"notifylab/internal/notify"
)

// Faults are what a provider can be told to do wrong. Where several of a list
// match a call, the last one counts, as with flags. A call meets them in the
// order of the fields.
type Faults struct {
	Hang       []Target  // never answered, not accepted
	Gate       []Gate    // held until another call has come
	Delay      []Delay   // decided and answered later
	Refuse     []Refusal // answered with an error, not accepted
	AcceptHang []Target  // accepted, never answered: the unknown outcome
}

// A Target is which calls a fault is for: those that equal each field that is
// not empty. The zero Target is all calls.
type Target struct {
	Channel notify.Channel
	User    string
	ID      string
}

// A Delay makes calls take that much longer. They are accepted after it, and
// even if the client has gone by then.
type Delay struct {
	Target
	For time.Duration
}

// A Refusal answers calls with an error status, 400 to 599.
type Refusal struct {
	Target
	Status int
}

// A Gate holds each call for the id Hold until one for the id Until has come,
// on whatever channel, since the gate was set. It stays open then.
type Gate struct{ Hold, Until string }

func (t Target) matches(n notify.Notification, c notify.Channel) bool {
	return (t.Channel == "" || t.Channel == c) && (t.User == "" || t.User == n.User) && (t.ID == "" || t.ID == n.ID)
}

// String returns the form that [ParseTarget] reads. A target has such a form
// if it has at most one field.
func (t Target) String() string {
	switch {
	case t.Channel != "":
		return string(t.Channel)
	case t.User != "":
		return "user=" + t.User
	case t.ID != "":
		return "id=" + t.ID
	}
	return "all"
}

// String returns the form that [ParseDelay] reads.
func (d Delay) String() string { return d.Target.before(d.For.String()) }

// String returns the form that [ParseRefuse] reads.
func (r Refusal) String() string { return r.Target.before(strconv.Itoa(r.Status)) }

// String returns the form that [ParseGate] reads.
func (g Gate) String() string { return g.Hold + ":" + g.Until }

func (t Target) before(value string) string {
	switch {
	case t == (Target{}):
		return value
	case t.Channel != "":
		return t.String() + "=" + value
	}
	return t.String() + ":" + value
}

// ParseTarget reads all, a channel, user=USER or id=ID.
func ParseTarget(s string) (Target, error) {
	if s == "all" {
		return Target{}, nil
	}
	// Ids and users may hold an equals sign themselves: only the first counts.
	field, name, named := strings.Cut(s, "=")
	var t Target
	switch {
	case named && field == "user":
		t.User = name
	case named && field == "id":
		t.ID = name
	default:
		c, err := notify.ParseChannel(s)
		if err != nil {
			return Target{}, fmt.Errorf("target %q: want all, %s, user=USER or id=ID", s, channelNames())
		}
		return Target{Channel: c}, nil
	}
	// Valid are the names that a notification can have.
	n := notify.Notification{ID: cmp.Or(t.ID, "any"), User: cmp.Or(t.User, "any")}
	if err := n.Validate(); err != nil || name == "" {
		return Target{}, fmt.Errorf("target %q: %w", s, cmp.Or(err, errors.New("no name")))
	}
	return t, nil
}

// ParseDelay reads a duration for all calls, or one for some: 2s, email=2s,
// user=42:2s, id=ID:2s.
func ParseDelay(s string) (Delay, error) {
	t, value, err := cutTarget(s)
	if err != nil {
		return Delay{}, fmt.Errorf("delay %q: %w", s, err)
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return Delay{}, fmt.Errorf("delay %q: want a duration such as 500ms or 2s, alone or after a target: email=2s, user=42:2s", s)
	}
	return Delay{t, d}, nil
}

// ParseRefuse reads a status for all calls, or one for some: 410, email=503,
// user=42:410, id=ID:410.
func ParseRefuse(s string) (Refusal, error) {
	t, value, err := cutTarget(s)
	if err != nil {
		return Refusal{}, fmt.Errorf("refuse %q: %w", s, err)
	}
	status, err := strconv.Atoi(value)
	if err != nil || status < 400 || status > 599 {
		return Refusal{}, fmt.Errorf("refuse %q: want a status from 400 to 599, alone or after a target: email=503, user=42:410", s)
	}
	return Refusal{t, status}, nil
}

// ParseGate reads HOLD:UNTIL, two ids.
func ParseGate(s string) (Gate, error) {
	hold, until, _ := strings.Cut(s, ":")
	valid := func(id string) bool { return notify.Notification{ID: id, User: "any"}.Validate() == nil }
	if !valid(hold) || !valid(until) || hold == until {
		return Gate{}, fmt.Errorf("gate %q: want HOLD:UNTIL, two different ids", s)
	}
	return Gate{hold, until}, nil
}

// cutTarget splits [TARGET(:|=)]VALUE. A value has neither sign, so the last
// one in s ends the target, whatever a user's name holds.
func cutTarget(s string) (Target, string, error) {
	i := strings.LastIndexAny(s, ":=")
	if i < 0 {
		return Target{}, s, nil
	}
	t, err := ParseTarget(s[:i])
	return t, s[i+1:], err
}

func channelNames() string {
	var names []string
	for _, c := range notify.Channels() {
		names = append(names, string(c))
	}
	return strings.Join(names, ", ")
}
