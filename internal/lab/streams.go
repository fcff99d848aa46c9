package lab

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Streams notes the streams of runs that are to end by themselves. The broker lets a
// queue expire and no stream, so what a run that was killed has left is deleted by a
// later one. One list for all namespaces, since nobody knows that of a run that is
// gone; in the empty one, where a reset that forgets it has deleted nothing else.
type Streams struct{ client Client }

const streamsKey = "notifylab:streams" // name → when it is overdue, in ms on Redis's clock

// NewStreams returns the list. It talks to nobody.
func NewStreams(c Client) Streams { return Streams{c} }

// Lend notes streams that are overdue after that long: before they are made.
func (s Streams) Lend(ctx context.Context, d time.Duration, names ...string) error {
	now, err := s.client.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("note streams: %w", err)
	}
	var all []redis.Z
	for _, name := range names {
		all = append(all, redis.Z{Score: float64(now.Add(d).UnixMilli()), Member: name})
	}
	if err := s.client.ZAdd(ctx, streamsKey, all...).Err(); err != nil {
		return fmt.Errorf("note streams: %w", err)
	}
	return nil
}

// Returned takes notes back: after the streams are deleted, or when they are to stay.
func (s Streams) Returned(ctx context.Context, names ...string) error {
	var all []any
	for _, name := range names {
		all = append(all, name)
	}
	if len(all) == 0 {
		return nil
	}
	if err := s.client.ZRem(ctx, streamsKey, all...).Err(); err != nil {
		return fmt.Errorf("take back the notes of streams: %w", err)
	}
	return nil
}

// Overdue returns the streams that should have been returned by now.
func (s Streams) Overdue(ctx context.Context) ([]string, error) {
	now, err := s.client.Time(ctx).Result()
	if err == nil {
		var names []string
		names, err = s.client.ZRangeByScore(ctx, streamsKey, &redis.ZRangeBy{Min: "-inf", Max: strconv.FormatInt(now.UnixMilli(), 10)}).Result()
		if err == nil {
			return names, nil
		}
	}
	return nil, fmt.Errorf("read the notes of streams: %w", err)
}
