package provider

import (
	"context"
	"fmt"
	"sync"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// A Call is one notification that the provider was asked to deliver, and what
// it did about it.
type Call struct {
	Time    time.Time      `json:"time"` // when it was decided
	ID      string         `json:"id"`
	Channel notify.Channel `json:"channel"`
	User    string         `json:"user"`
	Text    string         `json:"text"`
	Key     string         `json:"key,omitempty"`    // its Idempotency-Key
	Caller  int            `json:"caller,omitempty"` // the pid of who called, by its own word
	// Kind is [event.Accepted], [event.AcceptedAgain], [event.Deduplicated] or
	// [event.Refused].
	Kind   event.Kind `json:"kind"`
	Status int        `json:"status"` // of the HTTP answer, whether or not it was written
	Reason string     `json:"reason,omitempty"`
}

// A Ledger is everything that a provider was asked to do, in order. It is safe
// for concurrent use; calls are only ever added. What it counts it keeps
// counts of, so that asking costs the same after a million calls.
type Ledger struct {
	emit  func(event.Event)
	brief bool // counts alone

	mu sync.Mutex
	// Pages of pageSize calls: a single slice would be copied whole, under the
	// lock and in the middle of a load, each time it grew.
	pages   [][]Call
	calls   int
	kinds   map[event.Kind]int
	tallies map[subject]tally
	people  map[person]struct{} // to whom something was accepted
	keys    map[string]struct{} // of accepted calls
	grown   chan struct{}       // closed and dropped at a change; nil while nobody waits
}

const pageSize = 256

// subject is what a scenario asks about: one message on one channel.
type subject struct {
	id      string
	channel notify.Channel
}

type person struct {
	subject
	user string
}

type tally struct{ accepted, refused, deduplicated, held int }

func newLedger(emit func(event.Event)) *Ledger {
	return &Ledger{
		emit:    emit,
		kinds:   make(map[event.Kind]int),
		tallies: make(map[subject]tally),
		people:  make(map[person]struct{}),
		keys:    make(map[string]struct{}),
	}
}

// Calls returns a copy of all calls so far, in order.
func (l *Ledger) Calls() []Call {
	pages, n := l.view()
	calls := make([]Call, 0, n)
	for _, p := range pages {
		calls = append(calls, p...)
	}
	return calls
}

// Len returns the number of calls so far.
func (l *Ledger) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

// Count returns the number of calls of one kind.
func (l *Ledger) Count(k event.Kind) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kinds[k]
}

// Accepted returns how often the notification was accepted on that channel,
// the first time and again.
func (l *Ledger) Accepted(id string, c notify.Channel) int { return l.tally(id, c).accepted }

// Refused returns how often the notification was refused on that channel.
func (l *Ledger) Refused(id string, c notify.Channel) int { return l.tally(id, c).refused }

// Deduplicated returns how often the notification came with a key that had
// been accepted before.
func (l *Ledger) Deduplicated(id string, c notify.Channel) int {
	return l.tally(id, c).deduplicated
}

// Held returns how many calls for the notification are there and unanswered
// at this moment because of a fault: delayed, hanging, or held by a gate.
func (l *Ledger) Held(id string, c notify.Channel) int { return l.tally(id, c).held }

func (l *Ledger) tally(id string, c notify.Channel) tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tallies[subject{id, c}]
}

// Await returns when ok does: it is called at once and after changes, without
// any lock held, and never twice at a time. Several changes may be seen in one
// call. The error says that ctx ended first.
//
// Each call of ok should ask for counts. One that asks for all [Ledger.Calls]
// copies them, which is right for a few and not under load.
func (l *Ledger) Await(ctx context.Context, ok func(*Ledger) bool) error {
	for {
		grown := l.change() // before looking, so that nothing falls in between
		if ok(l) {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return fmt.Errorf("await the provider's ledger, %d calls so far: %w", l.Len(), context.Cause(ctx))
		}
	}
}

func (l *Ledger) change() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grown == nil {
		l.grown = make(chan struct{})
	}
	return l.grown
}

// view returns the pages as they are now. Calls in them never change, so they
// can be read without the lock.
func (l *Ledger) view() (pages [][]Call, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([][]Call(nil), l.pages...), l.calls
}

// accept decides what an acceptable call is, and adds it.
func (l *Ledger) accept(c Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	who := person{subject{c.ID, c.Channel}, c.User}
	_, known := l.keys[c.Key]
	_, again := l.people[who]
	switch {
	case known: // never by the empty key: it is not put in
		c.Kind = event.Deduplicated
	case again:
		c.Kind = event.AcceptedAgain
	default:
		c.Kind = event.Accepted
	}
	if c.Kind != event.Deduplicated {
		l.people[who] = struct{}{}
		if c.Key != "" {
			l.keys[c.Key] = struct{}{}
		}
	}
	l.addLocked(c)
}

// refuse adds a call that was refused.
func (l *Ledger) refuse(c Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.Kind = event.Refused
	l.addLocked(c)
}

func (l *Ledger) addLocked(c Call) {
	c.Time = time.Now() // under the lock, so that times rise with the order
	if !l.brief {
		l.keepLocked(c)
	}
	l.calls++
	l.kinds[c.Kind]++

	about := subject{c.ID, c.Channel}
	t := l.tallies[about]
	switch c.Kind {
	case event.Accepted, event.AcceptedAgain:
		t.accepted++
	case event.Deduplicated:
		t.deduplicated++
	case event.Refused:
		t.refused++
	}
	l.tallies[about] = t

	// Under the lock, too: events come in the ledger's order, whoever has seen
	// the event finds the call, and the other way round.
	if l.emit != nil {
		l.emit(c.event())
	}
	l.changedLocked()
}

func (l *Ledger) keepLocked(c Call) {
	if len(l.pages) == 0 || len(l.pages[len(l.pages)-1]) == pageSize {
		l.pages = append(l.pages, make([]Call, 0, pageSize))
	}
	last := &l.pages[len(l.pages)-1]
	*last = append(*last, c)
}

// hold counts by how many more (or fewer, if negative) calls wait at a fault.
func (l *Ledger) hold(id string, c notify.Channel, more int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tallies[subject{id, c}]
	t.held += more
	l.tallies[subject{id, c}] = t
	l.changedLocked()
}

func (l *Ledger) changedLocked() {
	if l.grown != nil {
		close(l.grown)
		l.grown = nil
	}
}

func (c Call) event() event.Event {
	return event.Event{
		Time: c.Time, Kind: c.Kind, Source: Source,
		ID: c.ID, Channel: string(c.Channel), User: c.User, Text: c.Text,
		Key: c.Key, Caller: c.Caller, Reason: c.Reason,
	}
}
