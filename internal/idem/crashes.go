package idem

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/notify"
)

//go:embed count.lua
var countLua string

// crashMemory is how long crashes of a message are counted together.
const crashMemory = time.Hour

// once is a command that the client does not repeat when its reply is lost: a
// count must not grow by itself.
type once struct{ *redis.IntCmd }

func (once) NoRetry() bool { return true }

// CountCrash counts that the handling of n begins, and returns how often it has
// begun since it was last settled: if the worker dies now, this was one crash.
// It is never repeated, so after an error it may have been counted or not.
func (s *Store) CountCrash(ctx context.Context, n notify.Notification, c notify.Channel) (int, error) {
	key := s.crashes(n, c)
	count := once{redis.NewIntCmd(ctx, "eval", countLua, 1, key, crashMemory.Milliseconds())}
	if err := s.client.Process(ctx, count); err != nil {
		return 0, fmt.Errorf("count crash %s: %w", key, err)
	}
	return int(count.Val()), nil
}

// ForgetCrashes deletes the count: the message was settled.
func (s *Store) ForgetCrashes(ctx context.Context, n notify.Notification, c notify.Channel) error {
	if err := s.client.Del(ctx, s.crashes(n, c)).Err(); err != nil {
		return fmt.Errorf("forget crashes: %w", err)
	}
	return nil
}

func (s *Store) crashes(n notify.Notification, c notify.Channel) string {
	return s.namespace.Key("crashes:" + notify.Key(n, c))
}
