package lab

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

func TestJournal_pages(t *testing.T) {
	t.Parallel()
	c, _ := dial(t)
	ns := place(t, c)
	j := openJournal(t, c, ns)
	j.pack = 300 // three events
	const all = 8 * journalPage
	for i := range all {
		e := said(i)
		if i%100 == 7 {
			e.ID = "mine"
		}
		j.Add(e)
	}
	if err := j.Flush(soon(t)); err != nil {
		t.Fatal(err)
	}
	whole, err := ReadJournal(soon(t), c, ns, "", all+1)
	if err != nil || len(whole) != all {
		t.Fatalf("%d of %d, %v", len(whole), all, err)
	}
	for _, limit := range []int{1, journalPage - 1, journalPage, journalPage + 1, all, all + 1} {
		n := min(limit, all)
		first, err := ReadJournal(soon(t), c, ns, "", limit)
		if err != nil || len(first) != n || first[n-1].Cursor != whole[n-1].Cursor {
			t.Errorf("the first %d: got %d, %v", limit, len(first), err)
		}
		last, err := LatestJournal(soon(t), c, ns, limit)
		if err != nil || len(last) != n || last[0].Cursor != whole[all-n].Cursor || last[n-1].Cursor != whole[all-1].Cursor {
			t.Errorf("the last %d: got %d, %v", limit, len(last), err)
		}
	}
	mine, err := LatestOf(soon(t), c, ns, "mine", 1000)
	if err != nil || len(mine) != all/100 || slices.ContainsFunc(mine, func(e Entry) bool { return e.ID != "mine" }) {
		t.Errorf("got %d of %d, %v", len(mine), all/100, err)
	}
	three, err := LatestOf(soon(t), c, ns, "mine", 3)
	if err != nil || len(three) != 3 || three[0] != mine[len(mine)-3] {
		t.Errorf("the last three: %d, %v", len(three), err)
	}
	rest, err := ReadJournal(soon(t), c, ns, whole[all-3].Cursor, 10)
	if err != nil || len(rest) != 2 {
		t.Errorf("after a cursor: got %d, %v", len(rest), err)
	}
	if got, err := ReadJournal(soon(t), c, ns, whole[0].Cursor, all); err != nil || !slices.Equal(got, whole[1:]) {
		t.Errorf("all after %s: got %d, %v", whole[0].Cursor, len(got), err)
	}
	if n := c.XLen(soon(t), journalKey(ns)).Val(); n < 2*journalPage || n > all/2 {
		t.Errorf("%d entries show nothing about pages", n)
	}
	at, _ := time.ParseDuration(strings.Split(whole[100].Cursor, "-")[0] + "ms")
	since, err := ReadJournal(soon(t), c, ns, CursorAt(time.UnixMilli(at.Milliseconds())), all)
	ms := strings.Split(whole[100].Cursor, "-")[0] + "-"
	if err != nil || len(since) == 0 || !strings.HasPrefix(since[0].Cursor, ms) {
		t.Errorf("since %s: got %d, %v", ms, len(since), err)
	}
	if i := slices.IndexFunc(whole, func(e Entry) bool { return strings.HasPrefix(e.Cursor, ms) }); all-i != len(since) {
		t.Errorf("since %s: got %d, want %d", ms, len(since), all-i)
	}
}

// Wherever somebody stops reading, in the middle of an entry too, he goes on with the
// very next event, and when what he was at is gone, with what there is.
func TestJournal_is_read_on_from_every_event(t *testing.T) {
	t.Parallel()
	c, _ := dial(t)
	ns := place(t, c)
	old := event.Encode(said(0))
	if err := c.XAdd(soon(t), &redis.XAddArgs{Stream: journalKey(ns), Values: []any{journalField, string(old[:len(old)-1])}}).Err(); err != nil {
		t.Fatal(err)
	}
	j := openJournal(t, c, ns)
	j.pack = 1000
	const all = 60
	for i := 1; i < all; i++ {
		j.Add(said(i))
	}
	if err := j.Flush(soon(t)); err != nil {
		t.Fatal(err)
	}
	whole, err := ReadJournal(soon(t), c, ns, "", all)
	if err != nil || len(whole) != all {
		t.Fatalf("%d, %v", len(whole), err)
	}
	half := 0 // the first that is not its entry's last
	for i, e := range whole[:all-1] {
		if half == 0 && strings.Contains(e.Cursor, ".") {
			half = i
		}
		for _, limit := range []int{1, 2, 7, 1000} {
			want := whole[i+1 : min(i+1+limit, all)]
			read, err := ReadJournal(soon(t), c, ns, e.Cursor, limit)
			if err != nil || !slices.Equal(read, want) {
				t.Errorf("%d after %s: got %v, %v, want %v", limit, e.Cursor, read, err, want)
			}
			come, err := AwaitJournal(soon(t), c, ns, e.Cursor, limit)
			if err != nil || len(come) == 0 || !slices.Equal(come, want[:len(come)]) {
				t.Errorf("%d to come after %s: got %v, %v, want %v", limit, e.Cursor, come, err, want)
			}
		}
	}
	id, _ := splitCursor(whole[half].Cursor)
	if half == 0 || c.XDel(soon(t), journalKey(ns), id).Val() != 1 {
		t.Fatalf("there is no entry of several events: %v", whole)
	}
	next := slices.IndexFunc(whole[half:], func(e Entry) bool { return !strings.HasPrefix(e.Cursor, id) }) + half
	for name, read := range map[string]func(context.Context, Client, notify.Namespace, string, int) ([]Entry, error){"read": ReadJournal, "await": AwaitJournal} {
		if got, err := read(soon(t), c, ns, whole[half].Cursor, 1); err != nil || len(got) != 1 || got[0] != whole[next] {
			t.Errorf("%s after what is gone: %v, %v, want %v", name, got, err, whole[next])
		}
	}
}

func TestAwaitJournal(t *testing.T) {
	t.Parallel()
	c, _ := dial(t)
	ns := place(t, c)
	if got, err := AwaitJournal(soon(t), c, ns, "", 10); len(got) != 0 || err != nil {
		t.Errorf("of nothing: %v, %v", got, err)
	}
	j := openJournal(t, c, ns)
	found := make(chan []Entry, 1)
	go func() {
		for {
			got, err := AwaitJournal(soon(t), c, ns, "", 10)
			if err != nil {
				t.Error(err)
			}
			if len(got) > 0 || err != nil {
				found <- got
				return
			}
		}
	}()
	j.Add(said(0))
	got := <-found
	if len(got) != 1 || got[0].ID != "n0" {
		t.Fatalf("got %v", got)
	}
	// What somebody else has written there is shown, and stops nobody.
	if err := c.XAdd(soon(t), &redis.XAddArgs{Stream: journalKey(ns), Values: []any{"event", "no JSON"}}).Err(); err != nil {
		t.Fatal(err)
	}
	got, err := AwaitJournal(soon(t), c, ns, got[0].Cursor, 10)
	if err != nil || len(got) != 1 || got[0].Kind != event.Log || got[0].Line != "no JSON" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestParseSince(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	for since, want := range map[string]string{
		"":                          "",
		"0s":                        "999999-18446744073709551615",
		"10s":                       "989999-18446744073709551615",
		"999999h":                   "0-18446744073709551615",
		"1970-01-01T00:00:01Z":      "999-18446744073709551615",
		"1970-01-01T01:00:01+01:00": "999-18446744073709551615",
		"17-3":                      "17-3",
		"17-18446744073709551615":   "17-18446744073709551615",
		"17-3.2":                    "17-3.2",
	} {
		if got, err := ParseSince(since, now); got != want || err != nil {
			t.Errorf("%q: got %q, %v, want %q", since, got, err, want)
		}
	}
	for _, since := range []string{"-5m", "yesterday", "5", "17-", "-3", "17-18446744073709551616", "1-2-3", "+1-2", "17-3.", "17-3.-1", "17.3"} {
		if got, err := ParseSince(since, now); err == nil || !strings.Contains(err.Error(), "5m") {
			t.Errorf("%q: want an error that says what is wanted, got %q, %v", since, got, err)
		}
	}
}
