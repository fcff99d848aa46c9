package idem

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Health is what a Redis is like, as far as it lets itself be asked: what it does
// not tell is empty. On a Cluster it is that of one of its masters.
type Health struct {
	Version     string
	Major       int           // of the version
	Eviction    string        // maxmemory-policy
	AppendOnly  string        // yes or no
	AppendFsync string        // always, everysec or no
	Skew        time.Duration // of its clock against ours, half a round trip apart
}

// Examine asks a Redis how it is. A server that does not allow CONFIG is no error.
func Examine(ctx context.Context, c Client) (Health, error) {
	var h Health
	var err error
	if h.Version, err = Version(ctx, c); err != nil {
		return h, err
	}
	major, _, _ := strings.Cut(h.Version, ".")
	h.Major, _ = strconv.Atoi(major)
	before := time.Now()
	theirs, err := c.Time(ctx).Result()
	if err != nil {
		return h, fmt.Errorf("ask Redis for the time: %w", err)
	}
	h.Skew = theirs.Sub(before.Add(time.Since(before) / 2))
	for _, v := range []struct {
		name string
		to   *string
	}{{"maxmemory-policy", &h.Eviction}, {"appendonly", &h.AppendOnly}, {"appendfsync", &h.AppendFsync}} {
		if got, err := c.ConfigGet(ctx, v.name).Result(); err == nil {
			*v.to = got[v.name]
		}
	}
	return h, nil
}
