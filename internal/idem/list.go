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
	TTL               time.Duration // 0: for ever, which none is that a worker wrote
}

// List returns the records of a namespace, by key. With an id, only its own. It
// goes through the keys without blocking the server, on a Cluster through those of
// every master; records that come or go meanwhile may be missed, and what is no
// record of ours is left out.
func List(ctx context.Context, c Client, ns notify.Namespace, id string) ([]Listed, error) {
	pattern := "notification:*"
	if id != "" {
		pattern = "notification:" + literal(id) + ":*"
	}
	var all []Listed
	err := each(ctx, c, ns.Key(pattern), func(keys []string) error {
		found, err := listed(ctx, c, ns, keys)
		all = append(all, found...)
		return err
	})
	slices.SortFunc(all, func(a, b Listed) int { return strings.Compare(a.Key, b.Key) })
	return slices.CompactFunc(all, func(a, b Listed) bool { return a.Key == b.Key }), err
}

// listed reads some records in one round trip.
func listed(ctx context.Context, c Client, ns notify.Namespace, keys []string) ([]Listed, error) {
	type answer struct {
		value *redis.StringCmd
		ttl   *redis.DurationCmd
	}
	var asked []Listed
	var answers []answer
	// Its error is that of the first command which failed, and each has its own.
	_, _ = c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			if f := strings.Split(ns.Bare(key), ":"); len(f) == 4 {
				asked = append(asked, Listed{Key: key, ID: f[1], Channel: f[2], User: f[3]})
				answers = append(answers, answer{p.Get(ctx, key), p.PTTL(ctx, key)})
			}
		}
		return nil
	})
	var found []Listed
	for i, a := range answers {
		l := asked[i]
		value, err := a.value.Result()
		if errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "WRONGTYPE") {
			continue
		}
		if err == nil {
			l.TTL, err = a.ttl.Result()
		}
		if err != nil {
			return found, fmt.Errorf("look at %s: %w", l.Key, err)
		}
		const none, gone = -1, -2 // as the library has Redis's answers
		if l.TTL == none {
			l.TTL = 0
		}
		if l.Record, err = ParseRecord(value); err == nil && l.TTL != gone {
			found = append(found, l)
		}
	}
	return found, nil
}

// literal takes the meaning out of what a pattern would read as one.
func literal(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}

// ours are the keys that the program writes, in the empty namespace: the records
// first.
func ours() []string {
	return []string{"notification:*:*:*", "crashes:notification:*:*:*", "crash:*:*:*", "lab:*", "passes:*"}
}

// Forget deletes every key of ours in a namespace, and returns how many that were.
// In the empty namespace other programs' keys stay, but for those that are named as
// ours are. After an error some are deleted.
func Forget(ctx context.Context, c Client, ns notify.Namespace) (int, error) {
	return forget(ctx, c, ns, ours())
}

// ForgetRecords deletes the records of a namespace and nothing else, and returns
// how many those were.
func ForgetRecords(ctx context.Context, c Client, ns notify.Namespace) (int, error) {
	return forget(ctx, c, ns, ours()[:1])
}

func forget(ctx context.Context, c Client, ns notify.Namespace, patterns []string) (int, error) {
	n := 0
	for _, pattern := range patterns {
		err := each(ctx, c, ns.Key(pattern), func(keys []string) error {
			answers, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
				for _, key := range keys { // one by one: on a Cluster they live apart
					p.Unlink(ctx, key)
				}
				return nil
			})
			for _, a := range answers { // a key can be found twice
				if deleted, ok := a.(*redis.IntCmd); ok {
					n += int(deleted.Val())
				}
			}
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
