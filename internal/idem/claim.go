package idem

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/xid"

	"notifylab/internal/notify"
)

//go:embed complete.lua
var completeLua string

//go:embed release.lua
var releaseLua string

//go:embed take.lua
var takeLua string

// Store makes claims for one worker.
type Store struct {
	client    Client
	namespace notify.Namespace
	slot      *Slot
	lease     time.Duration
	retention time.Duration
	only      []any // when the SET of a claim writes: nx
	limit     limit
	clocks    recent

	complete, release, take script
}

// NewStore returns the records of a namespace as the worker in slot sees them.
// Pending records live for lease, claimed and done ones for retention, both in
// whole milliseconds, as Redis counts.
func NewStore(c Client, ns notify.Namespace, slot *Slot, lease, retention time.Duration) *Store {
	return &Store{
		client: c, namespace: ns, slot: slot, only: []any{"nx"},
		lease: lease.Truncate(time.Millisecond), retention: retention.Truncate(time.Millisecond),
		complete: newScript(completeLua),
		release:  newScript(releaseLua),
		take:     newScript(takeLua),
	}
}

// Dead says whether o is known to be dead; see [Slot.Dead].
func (s *Store) Dead(o Owner) bool { return s.slot.Dead(o) }

// Verdict is what a claim found.
type Verdict int

const (
	// Acquired: it is mine to send.
	Acquired Verdict = iota
	// Recovered: it is mine to send, and somebody died with it.
	Recovered
	// Duplicate: it was sent, or claimed for good.
	Duplicate
	// Conflict: the key is known with other contents, or with some that are no
	// record. Of the latter the record that was found is empty.
	Conflict
	// Busy: somebody who may live has it.
	Busy
)

// A Claim is what one handling of one delivery has to do with a record.
type Claim struct {
	store  *Store
	key    string // with its namespace
	mine   Record
	value  string // mine, as it is written
	ttl    time.Duration
	leased bool
	since  Instant // from before the first byte that could have made the record mine
	tried  bool
}

// Claim prepares the claim of n on channel c: nothing is written yet. With
// leased it is for a lease, else for good.
func (s *Store) Claim(n notify.Notification, c notify.Channel, leased bool) *Claim {
	claim := &Claim{
		store:  s,
		key:    s.namespace.Key(notify.Key(n, c)),
		mine:   Record{State: Claimed, Owner: s.slot.owner, Nonce: xid.New().String(), Fingerprint: notify.Fingerprint(n)},
		ttl:    s.retention,
		leased: leased,
	}
	if leased {
		claim.mine.State, claim.ttl = Pending, s.lease
	}
	claim.value = claim.mine.String()
	return claim
}

// Key returns the record's key, with its namespace.
func (c *Claim) Key() string { return c.key }

// Mine returns the record as this claim writes it.
func (c *Claim) Mine() Record { return c.mine }

// State returns the state that the claim writes.
func (c *Claim) State() State { return c.mine.State }

// TTL returns for how long the claim is written.
func (c *Claim) TTL() time.Duration { return c.ttl }

// Try writes the claim if the record is free, and says what it found otherwise.
// It may be called again after an error: whether the first one was written or
// not, it is the same claim, and its lease counts from the first try.
func (c *Claim) Try(ctx context.Context) (Verdict, Record, error) {
	if !c.tried {
		c.since, c.tried = c.store.clocks.instant(), true
	}
	set := redis.NewStringCmd(ctx, append([]any{"set", c.key, c.value, "px", c.ttl.Milliseconds(), "get"}, c.store.only...)...)
	err := c.store.together(ctx, set)
	if errors.Is(err, redis.Nil) || err == nil && len(c.store.only) == 0 { // written, whatever was there
		return Acquired, Record{}, nil
	}
	if redis.HasErrorPrefix(err, "WRONGTYPE") { // a hash, a list …
		return Conflict, Record{}, nil
	}
	if err != nil {
		return 0, Record{}, fmt.Errorf("claim %s: %w", c.key, err)
	}
	return c.judge(ctx, set.Val())
}

// Again claims what was acquired once more, with a whole new lease, after too
// little was left of the first. It acquires what is mine or nobody's; anything
// else is as in a first claim.
func (c *Claim) Again(ctx context.Context) (Verdict, Record, error) {
	since := Now()
	found, free, err := c.run(ctx, c.store.take, c.value, c.ttl.Milliseconds())
	if err != nil {
		return 0, Record{}, err
	}
	if free {
		c.since = since
		return Acquired, Record{}, nil
	}
	return c.judge(ctx, found)
}

// judge says what a record that was found means for this claim. Every mode asks
// the same: a claim for good does not overrule somebody's lease.
func (c *Claim) judge(ctx context.Context, found string) (Verdict, Record, error) {
	for {
		if found == c.value {
			return Acquired, Record{}, nil
		}
		r, err := ParseRecord(found)
		if err != nil {
			return Conflict, Record{}, nil // time does not mend it, so it is no error
		}
		switch {
		case r.Fingerprint != c.mine.Fingerprint:
			return Conflict, r, nil
		case r.State != Pending:
			return Duplicate, r, nil
		case !c.store.slot.Dead(r.Owner):
			return Busy, r, nil
		}
		since := Now()
		other, taken, err := c.run(ctx, c.store.take, c.value, c.ttl.Milliseconds(), found)
		if err != nil {
			return 0, Record{}, err
		}
		if taken {
			c.since = since
			return Recovered, r, nil
		}
		found = other // somebody was faster
	}
}

// Left returns how much of the lease is left on this machine's clocks, never
// more than in Redis. A claim for good has all of its retention left, always.
func (c *Claim) Left() time.Duration {
	if !c.leased {
		return c.ttl
	}
	return c.ttl - c.since.Elapsed()
}

// Complete marks the record as done for the retention. ours is false if somebody
// else has it, who keeps it: this was sent without the lease. A claim for good
// is complete from the start.
func (c *Claim) Complete(ctx context.Context) (ours bool, err error) {
	if !c.leased {
		return true, nil
	}
	done := c.mine
	done.State = Done
	_, ours, err = c.run(ctx, c.store.complete, c.value, done.String(), c.store.retention.Milliseconds())
	return ours, err
}

// Release takes the claim back, so that a copy can be sent. ours is false if
// somebody else has the same text in hand, or had: then nobody needs a copy. What
// else may stand there is left, and is nobody's who would send this.
func (c *Claim) Release(ctx context.Context) (ours bool, err error) {
	other, ours, err := c.run(ctx, c.store.release, c.value)
	if err != nil || ours {
		return ours, err
	}
	r, malformed := ParseRecord(other)
	return malformed != nil || r.Fingerprint != c.mine.Fingerprint, nil
}

// run calls one of the scripts, which return nothing (ok) or the value of
// whoever has the record, which is empty if it is no text at all.
func (c *Claim) run(ctx context.Context, s script, args ...any) (other string, ok bool, err error) {
	other, err = c.store.run(ctx, s, c.key, args...)
	if errors.Is(err, redis.Nil) {
		return "", true, nil
	}
	if redis.HasErrorPrefix(err, "WRONGTYPE") { // a hash, a list …
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("record %s: %w", c.key, err)
	}
	return other, false, nil
}

// Remaining returns how long the record that was found busy has left, 0 if it is
// gone.
func (c *Claim) Remaining(ctx context.Context) (time.Duration, error) {
	ttl, err := c.store.client.PTTL(ctx, c.key).Result()
	if err != nil {
		return 0, fmt.Errorf("look at %s: %w", c.key, err)
	}
	return max(0, ttl), nil
}

// Still says whether the record is what it was when it was found: as long as that
// is so, and its owner may live, there is nothing to do but wait.
func (c *Claim) Still(ctx context.Context, found Record) (bool, error) {
	now, err := c.store.client.Get(ctx, c.key).Result()
	if errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "WRONGTYPE") {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at %s: %w", c.key, err)
	}
	return now == found.String(), nil
}
