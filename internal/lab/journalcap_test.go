package lab

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// What it keeps is counted in events, however many there are in an entry: after a
// burst, after slow ones, and after the marks were lost.
func TestJournal_is_capped(t *testing.T) {
	t.Parallel()
	c, _ := dial(t)
	ns := place(t, c)
	j := openJournal(t, c, ns)
	j.length, j.pack = 1000, 2000                    // some twenty events
	const more = 2 * (journalMark + journalBatch*25) // two marks, each at the end of a write
	added, kept := 0, 0
	add := func(n, flushEvery int) {
		t.Helper()
		for i := range n {
			j.Add(said(added))
			added++
			if i%flushEvery == 0 || i == n-1 {
				if err := j.Flush(soon(t)); err != nil {
					t.Fatal(err)
				}
			}
		}
		ids := idsIn(t, c, ns)
		kept = len(ids)
		equalIDs(t, ids, numbered(added-kept, added))
	}
	for _, step := range []struct{ events, flushEvery int }{{5000, 5000}, {800, 1}, {500, 500}, {5000, 5000}, {1300, 1}, {200, 200}} {
		add(step.events, step.flushEvery)
		if kept < int(j.length) || kept > int(j.length)+more {
			t.Errorf("after %+v it keeps %d events, want %d and at most %d more", step, kept, j.length, more)
		}
	}
	if err := c.Del(soon(t), journalMarks(ns)).Err(); err != nil {
		t.Fatal(err)
	}
	add(6*int(j.length), 5000)
	if kept > int(j.length)+more {
		t.Errorf("after the marks were lost it keeps %d events", kept)
	}
	if n := c.ZCard(soon(t), journalMarks(ns)).Val(); n > j.length/journalMark+3 {
		t.Errorf("%d marks", n)
	}
}

// There are never more entries than events may be, whatever the count says.
func TestJournal_is_capped_though_the_count_is_wrong(t *testing.T) {
	t.Parallel()
	c, _ := dial(t)
	ns := place(t, c)
	if err := c.ZAdd(soon(t), journalMarks(ns), redis.Z{Score: -1e9, Member: journalAdded}).Err(); err != nil {
		t.Fatal(err)
	}
	j := openJournal(t, c, ns)
	j.length, j.pack = 1000, 1
	for i := range 5000 {
		j.Add(said(i))
	}
	if err := j.Flush(soon(t)); err != nil {
		t.Fatal(err)
	}
	// It is cut by whole nodes of a hundred.
	if n := c.XLen(soon(t), journalKey(ns)).Val(); n < 1000 || n > 1200 {
		t.Errorf("it has %d entries, want about 1000", n)
	}
}
