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
	// journalPage is how many entries one command reads: the whole journal in one
	// reply would hold everybody else up, and take longer than a command may.
	journalPage = 100
	followBlock = 500 * time.Millisecond
)

// An Entry is an event of the journal. Its cursor says where to go on reading: behind
// the entry of the stream with that id, or, in the middle of a pack, behind so many of
// the events of that entry: 1767225600000-0.3.
type Entry struct {
	Cursor string
	event.Event
}

// ReadJournal returns up to limit events after a cursor, oldest first; "" is the
// beginning.
func ReadJournal(ctx context.Context, c Client, ns notify.Namespace, after string, limit int) ([]Entry, error) {
	var all []Entry
	for id, had := splitCursor(after); len(all) < limit; had = 0 {
		from, n := "("+id, min(limit-len(all), journalPage)
		switch {
		case id == "":
			from = "-"
		case had > 0:
			from = id // it has more
		}
		messages, err := c.XRangeN(ctx, journalKey(ns), from, "+", int64(n)).Result()
		if err != nil {
			return nil, fmt.Errorf("read journal: %w", err)
		}
		all = append(all, entries(messages, id, had)...)
		if len(messages) < n {
			break
		}
		id = messages[n-1].ID
	}
	return all[:min(limit, len(all))], nil
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
		n := journalPage
		if id == "" {
			n = min(limit-len(all), n)
		}
		messages, err := c.XRevRangeN(ctx, journalKey(ns), to, "-", int64(n)).Result()
		if err != nil {
			return nil, fmt.Errorf("read journal: %w", err)
		}
		slices.Reverse(messages)
		for _, e := range slices.Backward(entries(messages, "", 0)) {
			if (id == "" || e.ID == id) && len(all) < limit {
				all = append(all, e)
			}
		}
		if len(messages) < n {
			break
		}
		to = "(" + messages[0].ID
	}
	slices.Reverse(all)
	return all, nil
}

// AwaitJournal is ReadJournal that waits for the next event if there is none yet:
// half a second, after which it returns nothing. It reads one page at most.
func AwaitJournal(ctx context.Context, c Client, ns notify.Namespace, after string, limit int) ([]Entry, error) {
	id, had := splitCursor(after)
	if had > 0 {
		if rest, err := ReadJournal(ctx, c, ns, after, min(limit, journalPage)); len(rest) > 0 || err != nil {
			return rest, err
		}
	}
	if id == "" {
		id = "0"
	}
	// The library gives a command that blocks ten seconds more; this much is enough.
	ctx, cancel := context.WithTimeout(ctx, followBlock+2*time.Second)
	defer cancel()
	streams, err := c.XRead(ctx, &redis.XReadArgs{
		Streams: []string{journalKey(ns), id}, Count: int64(min(limit, journalPage)), Block: followBlock,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("follow journal: %w", err)
	}
	var all []Entry
	for _, s := range streams {
		all = append(all, entries(s.Messages, id, 0)...)
	}
	return all[:min(limit, len(all))], nil
}

// entries are the events in messages, but for the first ones of the entry with that id,
// which somebody has had.
func entries(messages []redis.XMessage, id string, had int) []Entry {
	var all []Entry
	for _, m := range messages {
		value, _ := m.Values[journalField].(string)
		lines := strings.Split(value, "\n")
		for i, line := range lines {
			if m.ID == id && i < had {
				continue
			}
			cursor := m.ID
			if i < len(lines)-1 {
				cursor += "." + strconv.Itoa(i+1)
			}
			e, err := event.Decode([]byte(line))
			if err != nil {
				e = event.Event{Kind: event.Log, Line: line} // somebody else wrote that
			}
			all = append(all, Entry{Cursor: cursor, Event: e})
		}
	}
	return all
}

// splitCursor returns the id in a cursor, and of how many of its events that is; 0: of
// all.
func splitCursor(cursor string) (id string, had int) {
	id, part, _ := strings.Cut(cursor, ".")
	had, _ = strconv.Atoi(part)
	return id, had
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
	id, part, half := strings.Cut(since, ".")
	if ms, seq, ok := strings.Cut(id, "-"); ok && isUint(ms) && isUint(seq) && (!half || isUint(part)) {
		return since, nil
	}
	return "", fmt.Errorf("since %q: want a duration such as 5m, or a time such as %s", since, now.UTC().Format(time.RFC3339))
}

func isUint(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil
}
