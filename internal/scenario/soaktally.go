package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// A Tally is what a soak came to. It counts messages: a notification is one on each
// channel.
type Tally struct {
	Kind      string `json:"kind"` // soak
	ElapsedMS int64  `json:"elapsed_ms"`

	Published   int `json:"published"`
	Confirmed   int `json:"confirmed"`
	Refused     int `json:"refused"`     // returned or nacked: they are nowhere
	Unconfirmed int `json:"unconfirmed"` // they may be there or not
	Arrived     int `json:"arrived"`     // unconfirmed, and accepted all the same

	Accepted int `json:"accepted"` // calls that the provider accepted
	Again    int `json:"again"`    // of these, a second time or more
	Known    int `json:"known"`    // calls that the provider knew by their key

	Unanswered int `json:"unanswered"` // sends whose worker got no answer: UNKNOWN

	Kills            int `json:"kills"`
	RabbitMQRestarts int `json:"rabbitmq_restarts"`
	RedisRestarts    int `json:"redis_restarts"`

	// What became of the confirmed ones, in the end.
	Once    int `json:"once"`
	Twice   int `json:"twice"`
	Lost    int `json:"lost"`
	Parked  int `json:"parked"`
	Unknown int `json:"unknown"` // they still waited
	// Why they were parked, in the words of whoever did it: how many each.
	Why map[string]int `json:"parked_why,omitempty"`
}

// soakTally counts while it goes on. Of each message it keeps ten bytes, and more only
// of those that something happened to.
type soakTally struct {
	mu         sync.Mutex
	began      time.Time
	total      Tally
	messages   map[notify.Channel]*messages
	again      []sentAgain
	callers    map[numbered][]int          // of those accepted again: whose calls were
	failed     map[numbered][]int          // whose calls came to nothing, as they said
	unanswered map[numbered][]interruption // those of them that had no answer
	harm       []interruption
	dead       map[int]time.Time // the workers, by pid
}

// messages are those of a channel, by number.
type messages struct {
	published []publication
	accepted  []uint8
	last      []uint32 // when it was accepted, in ms since the beginning
	caller    []int32  // by whose call
}

// numbered is a message.
type numbered struct {
	n       int
	channel notify.Channel
}

// A publication is what the producer knows of a message.
type publication byte

const (
	notPublished publication = iota
	confirmed
	unconfirmed
)

// sentAgain is one acceptance more than there should be, and the one before it.
type sentAgain struct {
	numbered
	before  time.Duration // since the beginning
	at      time.Duration
	caller  int   // by its pid
	callers []int // of the acceptances before
	hands   []int // in which it had been before: of these, and of those whose calls came to nothing
}

// An interruption is one thing that was done to a server or a worker, or happened.
type interruption struct {
	what interruptionKind
	pid  int // of the worker
	from time.Time
}

type interruptionKind string

const (
	rabbitRestart  interruptionKind = "a restart of RabbitMQ"
	redisRestart   interruptionKind = "a restart of Redis"
	workerKilled   interruptionKind = "a kill"
	workerDied     interruptionKind = "a death"             // that nobody planned: a stop that took too long
	sessionEnd     interruptionKind = "a session's end"     // what was in hand is redelivered, and goes on
	unansweredSend interruptionKind = "an answer not there" // UNKNOWN
)

func newSoakTally(began time.Time) *soakTally {
	t := &soakTally{
		began: began, total: Tally{Kind: "soak"}, messages: map[notify.Channel]*messages{}, dead: map[int]time.Time{},
		callers: map[numbered][]int{}, failed: map[numbered][]int{}, unanswered: map[numbered][]interruption{},
	}
	for _, c := range notify.Channels() {
		t.messages[c] = &messages{}
	}
	return t
}

// reach makes room for the n-th.
func (m *messages) reach(n int) {
	for len(m.published) <= n {
		m.published, m.accepted = append(m.published, notPublished), append(m.accepted, 0)
		m.last, m.caller = append(m.last, 0), append(m.caller, 0)
	}
}

// offered is called before a message is published: it could be accepted first.
func (t *soakTally) offered(n int, c notify.Channel) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages[c].reach(n)
}

func (t *soakTally) published() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total.Published++
}

func (t *soakTally) answered(n int, c notify.Channel, fate broker.Fate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch fate {
	case broker.Confirmed:
		t.total.Confirmed++
		t.messages[c].published[n] = confirmed
	case broker.Unknown:
		t.total.Unconfirmed++
		t.messages[c].published[n] = unconfirmed
	default:
		t.total.Refused++
	}
}

// called takes the provider's own words.
func (t *soakTally) called(e event.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e.Kind {
	case event.Accepted, event.AcceptedAgain:
		t.accepted(e)
	case event.Deduplicated:
		t.total.Known++
	}
}

func (t *soakTally) accepted(e event.Event) {
	about := numberedIn(e)
	m, n := t.messages[about.channel], about.n
	if m == nil || n < 0 || n >= len(m.accepted) {
		return // nothing of ours
	}
	at := e.Time.Sub(t.began)
	t.total.Accepted++
	if m.accepted[n] > 0 {
		t.total.Again++
		t.callers[about] = append(t.callers[about], int(m.caller[n]))
		before := slices.Clone(t.callers[about])
		t.again = append(t.again, sentAgain{
			about, time.Duration(m.last[n]) * time.Millisecond, at, e.Caller, before, slices.Concat(before, t.failed[about]),
		})
	}
	m.accepted[n] = min(m.accepted[n]+1, 200)
	m.last[n], m.caller[n] = uint32(at.Milliseconds()), int32(e.Caller)
}

// told takes a worker's word for what the provider can't know: that an answer did not
// come, or that it makes a copy of a message.
func (t *soakTally) told(e event.Event) {
	if e.Kind != event.Unknown && e.Kind != event.Retry {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	about := numberedIn(e)
	t.failed[about] = append(t.failed[about], e.PID)
	if e.Kind == event.Unknown {
		t.total.Unanswered++
		t.unanswered[about] = append(t.unanswered[about], interruption{unansweredSend, e.PID, e.Time})
	}
}

func numberedIn(e event.Event) numbered { return numbered{numberOf(e.ID), notify.Channel(e.Channel)} }

// numberOf returns the number in an id, -1 if there is none.
func numberOf(id string) int {
	n, err := strconv.Atoi(id[strings.LastIndexByte(id, '-')+1:])
	if err != nil {
		return -1
	}
	return n
}

// interrupted notes what was done, and returns true if it was. A death counts once: who
// is killed again before the first time was noticed is dead already.
func (t *soakTally) interrupted(i interruption) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch i.what {
	case workerKilled, workerDied:
		if _, dead := t.dead[i.pid]; dead {
			return false
		}
		t.dead[i.pid] = i.from
		if i.what == workerKilled {
			t.total.Kills++
		}
	case rabbitRestart:
		t.total.RabbitMQRestarts++
	case redisRestart:
		t.total.RedisRestarts++
	}
	t.harm = append(t.harm, i)
	return true
}

// lives notes that there is a worker with a pid, which a dead one may have had.
func (t *soakTally) lives(pid int, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if died, ok := t.dead[pid]; ok && at.After(died) {
		delete(t.dead, pid)
	}
}

// waiting notes how many messages were not settled in time.
func (t *soakTally) waiting(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total.Unknown = n
}

// sum is what there is so far.
func (t *soakTally) sum() Tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.total
	if s.ElapsedMS == 0 {
		s.ElapsedMS = time.Since(t.began).Milliseconds()
	}
	return s
}

// soakEnd is all that a soak's judgement rests on.
type soakEnd struct {
	began time.Time
	Tally
	lost  []Subject // the first of them
	again []sentAgain
	harm  []interruption
	ns    string

	unanswered map[numbered][]interruption
}

// most offenders that are named.
const mostNamed = 10

// end gives each confirmed message its outcome, when nothing is left in the queues.
func (t *soakTally) end(ns string, parked map[Subject]string, elapsed time.Duration) soakEnd {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := soakEnd{began: t.began, again: t.again, harm: t.harm, ns: ns, unanswered: t.unanswered}
	t.total.ElapsedMS = elapsed.Milliseconds()
	for _, c := range notify.Channels() {
		m := t.messages[c]
		for n, p := range m.published {
			switch {
			case p == confirmed:
				e.judge(&t.total, Subject{fmt.Sprintf("%s-%d", ns, n), string(c)}, int(m.accepted[n]), parked)
			case p == unconfirmed && m.accepted[n] > 0:
				t.total.Arrived++
			}
		}
	}
	e.Tally = t.total
	return e
}

// parkedFor counts a reason. Of different ones only so many are kept.
func (t *Tally) parkedFor(why string) {
	if t.Why == nil {
		t.Why = map[string]int{}
	}
	if t.Why[why] == 0 && len(t.Why) >= mostNamed {
		why = "something else"
	}
	t.Why[why]++
}

func (e *soakEnd) judge(t *Tally, s Subject, accepted int, parked map[Subject]string) {
	why := parked[s]
	switch outcome(accepted, why != "", false) {
	case Once:
		t.Once++
	case Twice:
		t.Twice++
	case Parked:
		t.Parked++
		t.parkedFor(why)
	default:
		t.Lost++
		if len(e.lost) < mostNamed {
			e.lost = append(e.lost, s)
		}
	}
}
