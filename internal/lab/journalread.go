package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

const (
	// journalPage is how many events one command reads: the whole journal in one
	// reply would hold everybody else up, and take longer than a command may.
	journalPage = 1000
	followBlock = 500 * time.Millisecond
)

// An Entry is an event of the journal. Its cursor says where to go on reading.
type Entry struct {
	Cursor string
	event.Event
}

// ReadJournal returns up to limit events after a cursor, oldest first; "" is the
// beginning.
func ReadJournal(ctx context.Context, c Client, ns notify.Namespace, after string, limit int) ([]Entry, error) {
	var all []Entry
	for len(all) < limit {
		from, n := "-", min(limit-len(all), journalPage)
		if after != "" {
			from = "(" + after
		}
		messages, err := c.XRangeN(ctx, journalKey(ns), from, "+", int64(n)).Result()
		if err != nil {
			return nil, fmt.Errorf("read journal: %w", err)
		}
		all = append(all, entries(messages)...)
		if len(messages) < n {
			break
		}
		after = messages[n-1].ID
	}
	return all, nil
}

// LatestJournal returns the newest events, up to limit, oldest first.
func LatestJournal(ctx context.Context, c Client, ns notify.Namespace, limit int) ([]Entry, error) {
	return LatestOf(ctx, c, ns, "", limit)
}

// LatestOf returns the newest events of one notification, up to limit, oldest
// first; of all if id is "". They can be anywhere, so it may read the whole journal.
func LatestOf(ctx context.Context, c Client, ns notify.Namespace, id string, limit int) ([]Entry, error) {
	var all []Entry // newest first
	for to := "+"; len(all) < limit; {
		messages, err := c.XRevRangeN(ctx, journalKey(ns), to, "-", journalPage).Result()
		if err != nil {
			return nil, fmt.Errorf("read journal: %w", err)
		}
		for _, e := range entries(messages) {
			if (id == "" || e.ID == id) && len(all) < limit {
				all = append(all, e)
			}
		}
		if len(messages) < journalPage {
			break
		}
		to = "(" + messages[len(messages)-1].ID
	}
	slices.Reverse(all)
	return all, nil
}

// AwaitJournal is ReadJournal that waits for the next event if there is none yet:
// half a second, after which it returns nothing. It reads one page at most.
func AwaitJournal(ctx context.Context, c Client, ns notify.Namespace, after string, limit int) ([]Entry, error) {
	if after == "" {
		after = "0"
	}
	// The library gives a command that blocks ten seconds more; this much is enough.
	ctx, cancel := context.WithTimeout(ctx, followBlock+2*time.Second)
	defer cancel()
	streams, err := c.XRead(ctx, &redis.XReadArgs{
		Streams: []string{journalKey(ns), after}, Count: int64(min(limit, journalPage)), Block: followBlock,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("follow journal: %w", err)
	}
	var all []Entry
	for _, s := range streams {
		all = append(all, entries(s.Messages)...)
	}
	return all, nil
}

func entries(messages []redis.XMessage) []Entry {
	var all []Entry
	for _, m := range messages {
		line, _ := m.Values[journalField].(string)
		e, err := event.Decode([]byte(line))
		if err != nil {
			e = event.Event{Kind: event.Log, Line: line} // somebody else wrote that
		}
		all = append(all, Entry{Cursor: m.ID, Event: e})
	}
	return all
}

// CursorAt returns the cursor after which everything is that was journalled from t
// on, to the millisecond, by the server's clock.
func CursorAt(t time.Time) string {
	return fmt.Sprintf("%d-%d", max(0, t.UnixMilli()-1), uint64(math.MaxUint64))
}

// ParseSince reads where to begin: a cursor, a duration ago such as 5m, or a time
// such as 2026-01-31T12:00:00Z. "" is nowhere in particular.
func ParseSince(since string, now time.Time) (string, error) {
	if since == "" {
		return "", nil
	}
	if d, err := time.ParseDuration(since); err == nil && d >= 0 {
		return CursorAt(now.Add(-d)), nil
	}
	if t, err := time.Parse(time.RFC3339, since); err == nil {
		return CursorAt(t), nil
	}
	if ms, seq, ok := strings.Cut(since, "-"); ok && isUint(ms) && isUint(seq) {
		return since, nil
	}
	return "", fmt.Errorf("since %q: want a duration such as 5m, or a time such as %s", since, now.UTC().Format(time.RFC3339))
}

func isUint(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil
}
