package passes

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/idem"
)

// keysWith returns the keys that begin with prefix, on a Cluster those of every
// master. A key may come twice.
func keysWith(ctx context.Context, c idem.Client, prefix string) ([]string, error) {
	var mu sync.Mutex // masters are asked at the same time
	var all []string
	pattern := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(prefix) + "*"
	scan := func(ctx context.Context, c redis.Cmdable) error {
		for cursor := uint64(0); ; {
			keys, next, err := c.Scan(ctx, cursor, pattern, 1000).Result()
			if err != nil {
				return fmt.Errorf("scan %s: %w", pattern, err)
			}
			mu.Lock()
			all = append(all, keys...)
			mu.Unlock()
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	if cluster, ok := c.(*redis.ClusterClient); ok {
		err := cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error { return scan(ctx, master) })
		return all, err
	}
	return all, scan(ctx, c)
}
