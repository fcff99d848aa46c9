package passes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/xid"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
)

// A Record is what a handler gets.
type Record struct {
	Expired
	Partition int
	Offset    int64
}

// Config is what a member is made of. All is required but what says otherwise.
type Config struct {
	Log   Log
	Group *Group
	Name  string // c1: in the group, and the source of its events

	// Open connects to the broker, and makes the log's streams should they be missing.
	// An error of the first call ends the member; later ones are tried again.
	Open func(context.Context) (*broker.Conn, error)
	// Handle does what is to be done, and may do it for the second time. Its context
	// ends neither with the generation nor when the member is told to stop: it sets
	// its own bounds. After an error it is tried again for as long as the partition is
	// the member's, and everything behind it in the member's partitions waits.
	Handle func(context.Context, Record) error
	Emit   func(event.Event) // called by one goroutine at a time

	// CommitFirst commits before the handling: at most once. What a handler refuses
	// then is not tried again.
	CommitFirst bool

	TTL      time.Duration // after so long a silence it counts as dead
	Beat     time.Duration // how often it is heard; a third of TTL, say
	Prefetch int           // records of a partition that may be here before they are read, at least 1
	Backoff  time.Duration // before a handler is tried again

	// CrashPoints lets records arm crash points. Die ends the process at once, as
	// kill -9 does, and does not return. Suspend stops it, as kill -STOP does, and
	// returns when it has been continued. Marks makes crash points fire once; nil:
	// they don't fire, but for those that fire always.
	CrashPoints bool
	Die         func()
	Suspend     func()
	Marks       *lab.Marks
}

// A Member reads its share of a log for a group.
type Member struct {
	Config
	who    Identity
	pid    int
	conn   *broker.Conn
	opened time.Time     // when conn was
	wait   time.Duration // before the next one

	telling sync.Mutex // held around Emit

	mu    sync.Mutex
	heard idem.Instant // from before the last beat that was answered
}

// ErrReplaced says that another process has joined under the member's name.
var ErrReplaced = errors.New("another process has that name now")

// NewMember returns a member. It does nothing before [Member.Run].
func NewMember(cfg Config) *Member {
	return &Member{
		Config: cfg, pid: os.Getpid(),
		who: Identity{Name: cfg.Name, Nonce: xid.New().String(), TTL: cfg.TTL},
	}
}

// Run reads until ctx ends, then finishes what is in hand, leaves the group and
// returns nil. An error means that it never was in the group, or is no more and can't
// be again ([ErrReplaced], [ErrPartitions]). What it has committed is committed in any
// case, and nothing else is.
func (m *Member) Run(ctx context.Context) error {
	conn, err := m.Open(ctx)
	if err != nil && ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	m.conn, m.opened = conn, time.Now()
	defer func() { m.conn.Close() }()
	s, err := m.touch(ctx, m.Group.Join)
	if err != nil {
		if ctx.Err() != nil { // it may be in all the same
			return m.leave()
		}
		return err
	}
	m.say(event.Event{Kind: event.Ready, Membership: m.in(s)})
	m.say(event.Event{Kind: event.Joined, Membership: m.in(s)})
	for {
		err := newTenure(m, s).run(ctx)
		if ctx.Err() != nil {
			return m.leave()
		}
		if err == nil || m.reconnect(ctx, err) {
			s, err = m.renew(ctx, s)
		}
		switch {
		case ctx.Err() != nil:
			return m.leave()
		case err != nil:
			return err
		}
	}
}

// renew learns the generation after s, and joins again if the member was put out. It
// returns when Redis answers.
func (m *Member) renew(ctx context.Context, s State) (State, error) {
	next, err := m.insist(ctx, m.Group.Beat)
	if err != nil {
		return State{}, err
	}
	other, there := next.Member(m.who.Name)
	if there && other.Nonce != m.who.Nonce {
		return State{}, fmt.Errorf("member %s of group %s: %w", m.Name, m.Group.Name(), ErrReplaced)
	}
	if next.Generation != s.Generation || !there {
		m.say(event.Event{Kind: event.Rebalanced, Membership: m.in(next), Reason: changes(s, next)})
	}
	if there {
		return next, nil
	}
	if next, err = m.insist(ctx, m.Group.Join); err == nil {
		m.say(event.Event{Kind: event.Joined, Membership: m.in(next)})
	}
	return next, err
}

// changes says who came and went: c3 joined, c1 gone.
func changes(before, after State) string {
	var words []string
	for _, name := range after.Names() {
		now, _ := after.Member(name)
		if !before.Has(Identity{Name: name, Nonce: now.Nonce}) {
			words = append(words, name+" joined")
		}
	}
	for _, name := range before.Names() {
		if !slices.Contains(after.Names(), name) {
			words = append(words, name+" gone")
		}
	}
	return strings.Join(words, ", ")
}

// leave takes the member out of the group, so that nobody has to wait for its time to
// be over. If that can't be said to Redis, they have to.
func (m *Member) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*idem.Timeout)
	defer cancel()
	generation, err := m.Group.Leave(ctx, m.who)
	if err != nil {
		m.note("its partitions are taken over when its time is over: " + err.Error())
		return nil
	}
	if generation > 0 {
		m.say(event.Event{Kind: event.Left, Membership: event.Membership{Group: m.Group.Name(), Generation: generation}})
	}
	return nil
}

// touch joins or beats, once, and notes when the member was last heard.
func (m *Member) touch(ctx context.Context, how func(context.Context, Identity) (State, error)) (State, error) {
	since := idem.Now()
	ctx, cancel := context.WithTimeout(ctx, 2*idem.Timeout)
	defer cancel()
	s, err := how(ctx, m.who)
	if err == nil && s.Has(m.who) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.heard = since
	}
	return s, err
}

// overdue says whether the group may have put the member out: since it was last heard
// its whole time has passed.
func (m *Member) overdue() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.heard.Elapsed() >= m.TTL
}

// in is what events say about the group.
func (m *Member) in(s State) event.Membership {
	return event.Membership{Group: m.Group.Name(), Generation: s.Generation}
}

// say emits an event of this member.
func (m *Member) say(e event.Event) {
	e.Time, e.Source, e.PID = time.Now(), m.Name, m.pid
	if e.Group == "" {
		e.Group = m.Group.Name()
	}
	m.telling.Lock()
	defer m.telling.Unlock()
	m.Emit(e)
}

// note says something that whoever watches should know.
func (m *Member) note(text string) { m.say(event.Event{Kind: event.Note, Reason: text}) }
