package idem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/notify"
)

// A Listed record is one that was found by looking through all keys.
type Listed struct {
	Key               string // with its namespace
	ID, Channel, User string
	Record            Record
	TTL               time.Duration // 0: for ever, which none of ours is
}

// List returns the records of a namespace, by key. With an id, only its own. It
// goes through the keys without blocking the server, on a Cluster through those of
// every master; records that come or go meanwhile may be missed.
func List(ctx context.Context, c Client, ns notify.Namespace, id string) ([]Listed, error) {
	pattern := "notification:*"
	if id != "" {
		pattern = "notification:" + literal(id) + ":*"
	}
	var all []Listed
	err := each(ctx, c, ns.Key(pattern), func(keys []string) error {
		for _, key := range keys {
			l, ok, err := listed(ctx, c, ns, key)
			if err != nil {
				return err
			}
			if ok {
				all = append(all, l)
			}
		}
		return nil
	})
	byKey := func(a, b Listed) int { return strings.Compare(a.Key, b.Key) }
	slices.SortFunc(all, byKey)
	return slices.CompactFunc(all, func(a, b Listed) bool { return a.Key == b.Key }), err
}

// listed reads one record. One that is gone by now, or is not ours, is none.
func listed(ctx context.Context, c Client, ns notify.Namespace, key string) (Listed, bool, error) {
	parts := strings.Split(ns.Bare(key), ":")
	if len(parts) != 4 {
		return Listed{}, false, nil
	}
	l := Listed{Key: key, ID: parts[1], Channel: parts[2], User: parts[3]}
	var ok bool
	var err error
	l.Record, l.TTL, ok, err = Look(ctx, c, ns, notify.Notification{ID: l.ID, User: l.User}, notify.Channel(l.Channel))
	if errors.Is(err, errNotOurs) {
		return Listed{}, false, nil
	}
	return l, ok, err
}

// literal takes the meaning out of what a pattern would read as one.
func literal(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}

// ours are the keys that the program writes, in the empty namespace.
func ours() []string {
	return []string{"notification:*", "crashes:*", "crash:*", "lab:*", "passes:*"}
}

// Forget deletes every key of ours in a namespace, and returns how many there
// were. In the empty namespace other programs' keys stay.
func Forget(ctx context.Context, c Client, ns notify.Namespace) (int, error) {
	n := 0
	for _, pattern := range ours() {
		err := each(ctx, c, ns.Key(pattern), func(keys []string) error {
			_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
				for _, key := range keys { // one by one: on a Cluster they live apart
					p.Unlink(ctx, key)
				}
				return nil
			})
			n += len(keys)
			return err
		})
		if err != nil {
			return n, fmt.Errorf("forget %s: %w", ns.Key(pattern), err)
		}
	}
	return n, nil
}

// each calls do with the keys that match, some at a time; of a Cluster with those
// of every master. A key may come twice.
func each(ctx context.Context, c Client, pattern string, do func(keys []string) error) error {
	scan := func(ctx context.Context, c redis.Cmdable) error {
		for cursor := uint64(0); ; {
			keys, next, err := c.Scan(ctx, cursor, pattern, 1000).Result()
			if err != nil {
				return fmt.Errorf("scan %s: %w", pattern, err)
			}
			if err := do(keys); err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	cluster, ok := c.(*redis.ClusterClient)
	if !ok {
		return scan(ctx, c)
	}
	var one sync.Mutex // masters are asked at the same time, do is called for one
	var errs []error
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		one.Lock()
		defer one.Unlock()
		errs = append(errs, scan(ctx, master))
		return nil
	})
	return errors.Join(append(errs, err)...)
}
