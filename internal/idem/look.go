package idem

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/notify"
)

// Look reads the record of a notification and how long it has left, without
// touching it. ok is false if there is none.
func Look(ctx context.Context, c Client, ns notify.Namespace, n notify.Notification, channel notify.Channel) (r Record, ttl time.Duration, ok bool, err error) {
	key := ns.Key(notify.Key(n, channel))
	value, err := c.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return Record{}, 0, false, nil
	}
	if err != nil {
		return Record{}, 0, false, fmt.Errorf("look at %s: %w", key, err)
	}
	if ttl, err = c.PTTL(ctx, key).Result(); err != nil {
		return Record{}, 0, false, fmt.Errorf("look at %s: %w", key, err)
	}
	if ttl < 0 { // it expired between the two looks, or never will, which none of ours does
		return Record{}, 0, false, nil
	}
	if r, err = ParseRecord(value); err != nil {
		return Record{}, 0, false, fmt.Errorf("look at %s: %w", key, err)
	}
	return r, ttl, true, nil
}

//go:embed drop.lua
var dropLua string

// Drop deletes the record of a notification if it still is r: somebody has decided
// that it is to be sent although it may have been.
func Drop(ctx context.Context, c Client, ns notify.Namespace, n notify.Notification, channel notify.Channel, r Record) error {
	key := ns.Key(notify.Key(n, channel))
	if err := redis.NewScript(dropLua).Run(ctx, c, []string{key}, r.String()).Err(); err != nil {
		return fmt.Errorf("drop %s: %w", key, err)
	}
	return nil
}
