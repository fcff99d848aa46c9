package passes

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/idem"
	"notifylab/internal/notify"
)

//go:embed touch.lua
var touchLua string

//go:embed leave.lua
var leaveLua string

//go:embed commit.lua
var commitLua string

//go:embed look.lua
var lookLua string

// A Group is a consumer group of a log: its members, and its cursors.
type Group struct {
	client     idem.Client
	name       string
	key        string // with its namespace
	partitions int
	memory     time.Duration

	touch, leave, commit, look *redis.Script
}

const keyPrefix = "passes:group:"

// NewGroup returns a group of log. It talks to nobody, and the group comes into being
// with its first member. It is forgotten, cursors and all, when no member has beaten
// for memory; never if that is 0.
func NewGroup(c idem.Client, log Log, name string, memory time.Duration) *Group {
	return &Group{
		client: c, name: name, key: log.Namespace.Key(keyPrefix + name), partitions: log.Partitions, memory: memory,
		touch:  redis.NewScript(touchLua),
		leave:  redis.NewScript(leaveLua),
		commit: redis.NewScript(commitLua),
		look:   redis.NewScript(lookLua),
	}
}

// Name returns the group's name.
func (g *Group) Name() string { return g.name }

// Key returns the key of the group's hash, with its namespace.
func (g *Group) Key() string { return g.key }

// Identity is who a member says that it is.
type Identity struct {
	Name  string
	Nonce string        // of this life, without blanks: two processes may claim one name
	TTL   time.Duration // it counts as dead when it was silent for so long
}

// ErrPartitions says that the group was made for a log with another number of
// partitions. Nothing was changed.
var ErrPartitions = errors.New("the log has another number of partitions")

// Join takes a member into the group, which makes a new generation unless it is in
// already. Whoever has the same name and another nonce is out by that: the last one to
// come has the name. It may be called again after an error.
func (g *Group) Join(ctx context.Context, who Identity) (State, error) {
	return g.call(ctx, "join", who, true)
}

// Beat keeps a member in the group for its time to live, from now on Redis's clock. A
// member that is not in (see [State.Has]) stays out.
func (g *Group) Beat(ctx context.Context, who Identity) (State, error) {
	return g.call(ctx, "beat in", who, false)
}

func (g *Group) call(ctx context.Context, what string, who Identity, join bool) (State, error) {
	enter := 0
	if join {
		enter = 1
	}
	s, err := parseState(g.touch.Run(ctx, g.client, []string{g.key},
		who.Name, who.Nonce, who.TTL.Milliseconds(), g.partitions, enter, g.memory.Milliseconds()))
	if err == nil && s.Partitions != 0 && s.Partitions != g.partitions {
		err = fmt.Errorf("%w: %d, not %d", ErrPartitions, s.Partitions, g.partitions)
	}
	if err != nil {
		return State{}, fmt.Errorf("%s group %s: %w", what, g.name, err)
	}
	return s, nil
}

// Leave takes a member out of the group and returns the generation without it; 0 if
// it was not in. It may be called again after an error.
func (g *Group) Leave(ctx context.Context, who Identity) (generation int64, err error) {
	generation, err = g.leave.Run(ctx, g.client, []string{g.key}, who.Name, who.Nonce).Int64()
	if err != nil {
		return 0, fmt.Errorf("leave group %s: %w", g.name, err)
	}
	return generation, nil
}

// A Commit is what a group said to one.
type Commit struct {
	Committed  bool  // the cursor is at the offset; it may have been before
	Generation int64 // of the group, now
	Cursor     int64 // where it is, now; -1: nothing was ever committed
}

// Commit moves the group's cursor of a partition to offset, if generation is the
// group's and the cursor is not beyond. Refused, it changes nothing. It may be called
// again after an error: whether the first one came through or not, it means the same.
func (g *Group) Commit(ctx context.Context, generation int64, partition int, offset int64) (Commit, error) {
	said, err := g.commit.Run(ctx, g.client, []string{g.key}, generation, partition, offset).Int64Slice()
	if err == nil && len(said) != 3 {
		err = fmt.Errorf("an answer of %d numbers", len(said))
	}
	if err != nil {
		return Commit{}, fmt.Errorf("commit %d of partition %d in group %s: %w", offset, partition, g.name, err)
	}
	return Commit{Committed: said[0] == 1, Generation: said[1], Cursor: said[2]}, nil
}

// Look returns the group as it is, and changes nothing: members whose time is over are
// still in until another one beats.
func (g *Group) Look(ctx context.Context) (State, error) {
	s, err := parseState(g.look.Run(ctx, g.client, []string{g.key}))
	if err != nil {
		return State{}, fmt.Errorf("look at group %s: %w", g.name, err)
	}
	return s, nil
}

// Groups lists the groups of a namespace, by name. Those that come or go meanwhile may
// be missed.
func Groups(ctx context.Context, c idem.Client, ns notify.Namespace) ([]string, error) {
	prefix := ns.Key(keyPrefix)
	keys, err := keysWith(ctx, c, prefix)
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	var names []string
	for _, key := range keys {
		names = append(names, key[len(prefix):])
	}
	return sorted(names), nil
}

// number reads a number that a script wrote.
func number(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", s)
	}
	return n, nil
}
