package lab

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/rounds"
)

// Client is what the lab needs of Redis.
type Client = redis.UniversalClient

// Fields of the hash lab:flags.
const (
	fieldIdempotency = "idempotency"
	fieldClaimLease  = "claim-lease"
	fieldProviderKey = "provider-key"
)

// Fields lists the settings by the names that people use.
func Fields() []string { return []string{fieldIdempotency, fieldClaimLease, fieldProviderKey} }

// ParseSwitch reads on, off, true, false, 1 or 0, in small letters or capitals.
func ParseSwitch(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "on", "true", "1":
		return true, nil
	case "off", "false", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither on nor off", s)
}

// FormatSwitch writes on or off.
func FormatSwitch(v bool) string {
	if v {
		return "on"
	}
	return "off"
}

// Settings reads and writes the lab's switches in one namespace. What is unset
// is off.
type Settings struct {
	client Client
	key    string
	reads  *rounds.Rounds[event.Settings]
}

// NewSettings returns the settings of a namespace.
func NewSettings(c Client, ns notify.Namespace) *Settings {
	s := &Settings{client: c, key: ns.Key("lab:flags")}
	s.reads = rounds.New(s.read)
	return s
}

// Get returns what is set now. All who call while one read is on its way share
// the next one, which is sent after they called: nobody gets an answer older
// than the question. Without a deadline it takes at most the time of one command and
// its retry.
func (s *Settings) Get(ctx context.Context) (event.Settings, error) { return s.reads.Join().Wait(ctx) }

// answerTime is how long an answer may take: a command's time-out and its retry's.
const answerTime = 2 * time.Second

// read goes with the claims' commands: after an outage a pool of connections of its
// own could find Redis away for a second longer than they do. What is queued there
// waits its turn, but who waits the longest waits no longer than for a command by
// itself.
func (s *Settings) read(since time.Time) (event.Settings, error) {
	fields, err := s.fields(since.Add(answerTime))
	if err != nil {
		return event.Settings{}, fmt.Errorf("read settings: %w", err)
	}
	return parse(fields), nil
}

func (s *Settings) fields(until time.Time) (map[string]string, error) {
	pipe, err := s.client.AsyncAutoPipeline()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	get := redis.NewMapStringStringCmd(ctx, "hgetall", s.key)
	if err := pipe.Submit(ctx, get).WaitContext(ctx); err != nil {
		return nil, err
	}
	return get.Val(), nil
}

func parse(fields map[string]string) event.Settings {
	on := func(name string) bool {
		v, err := ParseSwitch(fields[name])
		return err == nil && v
	}
	return event.Settings{Idempotency: on(fieldIdempotency), ClaimLease: on(fieldClaimLease), ProviderKey: on(fieldProviderKey)}
}

// Set writes some switches by their names.
func (s *Settings) Set(ctx context.Context, switches map[string]bool) error {
	if len(switches) == 0 {
		return nil
	}
	var args []any
	for name, on := range switches {
		args = append(args, name, FormatSwitch(on))
	}
	if err := s.client.HSet(ctx, s.key, args...).Err(); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return nil
}

// Reset switches all off.
func (s *Settings) Reset(ctx context.Context) error {
	if err := s.client.Del(ctx, s.key).Err(); err != nil {
		return fmt.Errorf("reset settings: %w", err)
	}
	return nil
}

// Seed gives switches that nobody has set their first values, from the
// environment's IDEMPOTENCY_ENABLED and CLAIM_LEASE_ENABLED by way of the caller.
func (s *Settings) Seed(ctx context.Context, first map[string]bool) error {
	for name, on := range first {
		if err := s.client.HSetNX(ctx, s.key, name, FormatSwitch(on)).Err(); err != nil {
			return fmt.Errorf("seed settings: %w", err)
		}
	}
	return nil
}
