package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

func said(i int) event.Event {
	return event.Event{Time: time.Unix(int64(i+1), 0).UTC(), Kind: event.Sent, Source: "push-worker-1", ID: fmt.Sprintf("n%d", i)}
}

func openJournal(t testing.TB, c Client, ns notify.Namespace) *Journal {
	t.Helper()
	j := NewJournal(c, ns, 0)
	t.Cleanup(func() {
		if err := j.Close(soon(t)); err != nil {
			t.Error(err)
		}
	})
	return j
}

// idsIn are those of the whole journal, in its order.
func idsIn(t testing.TB, c Client, ns notify.Namespace) []string {
	t.Helper()
	all, err := ReadJournal(soon(t), c, ns, "", 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, e := range all {
		ids = append(ids, e.ID)
	}
	return ids
}

func numbered(from, to int) []string {
	var ids []string
	for i := from; i < to; i++ {
		ids = append(ids, said(i).ID)
	}
	return ids
}

// equalIDs names the first difference: there are thousands.
func equalIDs(t testing.TB, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("got %d events, want %d; from the %d. on they differ: got %q, want %q",
				len(got), len(want), i+1, got[min(i, len(got)):min(i+3, len(got))], want[min(i, len(want)):min(i+3, len(want))])
		}
	}
}

func TestJournal_keeps_whole_events_in_their_order(t *testing.T) {
	t.Parallel()
	c, _ := dial(t)
	ns := place(t, c)
	j := openJournal(t, c, ns)
	want := event.Event{
		Time: time.Now().UTC(), Kind: event.Crash, Source: "push-worker-1", PID: 7, ID: "n\u202e<>&", Channel: "push",
		Text: "\x1b[31m", Point: "after-claim", Settings: &event.Settings{Idempotency: true},
	}
	j.Add(want)
	if err := j.Flush(soon(t)); err != nil {
		t.Fatal(err)
	}
	got, err := LatestJournal(soon(t), c, ns, 1)
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	if g, w := string(event.Encode(got[0].Event)), string(event.Encode(want)); g != w {
		t.Errorf("got %s want %s", g, w)
	}
	for i := range 3000 {
		j.Add(said(i))
	}
	if err := j.Flush(soon(t)); err != nil {
		t.Fatal(err)
	}
	equalIDs(t, idsIn(t, c, ns), append([]string{want.ID}, numbered(0, 3000)...))
	if ttl := c.TTL(soon(t), journalKey(ns)).Val(); ttl != -1 {
		t.Errorf("it lives %v, want for ever", ttl)
	}
	brief := NewJournal(c, ns, time.Minute)
	brief.Add(said(0))
	if err := brief.Close(soon(t)); err != nil {
		t.Fatal(err)
	}
	if ttl := c.TTL(soon(t), journalKey(ns)).Val(); ttl <= 0 || ttl > time.Minute {
		t.Errorf("it lives %v, want a minute", ttl)
	}
}

// Whoever flushes waits for what was said before, and for nothing else.
func TestJournal_Flush_of_many(t *testing.T) {
	t.Parallel()
	c, _ := dial(t)
	ns := place(t, c)
	j := openJournal(t, c, ns)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 30 {
				e := said(0)
				e.ID = fmt.Sprintf("g%d-%d", g, i)
				j.Add(e)
				if i%10 != 9 {
					continue
				}
				if err := j.Flush(soon(t)); err != nil {
					t.Error(err)
				}
				if !slices.Contains(idsIn(t, c, ns), e.ID) {
					t.Errorf("%s is not there after its flush", e.ID)
				}
			}
		})
	}
	wg.Wait()
}

// A server that stands still slows nobody: events wait, up to a bound, then the
// oldest are dropped; a flush ends with its context, and what is in the stream in
// the end is the rest, in order.
func TestJournal_Redis_away(t *testing.T) {
	t.Parallel()
	c, n := dial(t)
	quick, _ := dial(t)
	ns := place(t, quick)
	j := openJournal(t, c, ns)
	j.Add(said(0))
	if err := j.Flush(soon(t)); err != nil { // connected
		t.Fatal(err)
	}
	release := n.holding() // the write below gets no answer
	j.Add(said(1))
	await(t, n.waiting)
	const more = 60_000
	start := time.Now()
	for i := range more {
		j.Add(said(2 + i))
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("adding took %v", took)
	}
	dropped := j.Dropped()
	if line := len(event.Encode(said(more))); dropped == 0 || (more-dropped)*line < journalBuffer-2*journalPack {
		t.Errorf("%d of %d dropped", dropped, more)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := j.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing was written, and the flush says %v", err)
	}
	release()
	if err := j.Flush(soon(t)); err != nil {
		t.Fatal(err)
	}
	// The one that was on its way may have come twice: its answer was late.
	equalIDs(t, slices.Compact(idsIn(t, quick, ns)), append([]string{"n0", "n1"}, numbered(2+dropped, 2+more)...))
}

// What is on its way is not written because younger ones were dropped.
func TestJournal_Flush_waits_for_what_flies_while_others_are_dropped(t *testing.T) {
	t.Parallel()
	c, n := dial(t)
	j := openJournal(t, c, place(t, c))
	j.Add(said(0))
	if err := j.Flush(soon(t)); err != nil {
		t.Fatal(err)
	}
	release := n.holding()
	defer release()
	j.Add(said(1))
	await(t, n.waiting)
	flushed := make(chan error, 1)
	go func() { flushed <- j.Flush(soon(t)) }()
	for i := 0; j.Dropped() == 0; i++ {
		j.Add(said(i))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	select {
	case err := <-flushed:
		t.Errorf("flushed (%v), and n1 was not written", err)
	case <-ctx.Done():
	}
}

// The client asks again when a reply is lost, which may write an event twice and
// never loses one. If the second is lost as well the journal does.
func TestJournal_lost_reply(t *testing.T) {
	t.Parallel()
	c, n := dial(t)
	ns := place(t, c)
	j := openJournal(t, c, ns)
	for i, lost := range []int{1, 2} {
		n.losing("xadd", lost)
		j.Add(said(i))
		if err := j.Flush(soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	ids := idsIn(t, c, ns)
	equalIDs(t, slices.Compact(slices.Clone(ids)), []string{"n0", "n1"})
	if len(ids) != 5 {
		t.Errorf("want each as often as it was written, got %q", ids)
	}
}

func TestJournal_Close(t *testing.T) {
	t.Parallel()
	c, n := dialWithin(t, commandTime/2)
	quick, _ := dial(t)
	ns := place(t, quick)
	j := NewJournal(c, ns, 0)
	for i := range 2000 {
		j.Add(said(i))
	}
	if err := j.Close(soon(t)); err != nil {
		t.Fatal(err)
	}
	equalIDs(t, idsIn(t, quick, ns), numbered(0, 2000))
	if err := j.Close(soon(t)); err != nil {
		t.Errorf("closed again: %v", err)
	}
	j.Add(said(2000)) // into the void
	if err := j.Flush(soon(t)); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("flushed when it was closed: %v", err)
	}

	j = NewJournal(c, ns, 0)
	n.blackhole(true)
	j.Add(said(0))
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := j.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 2*commandTime {
		t.Errorf("Redis is away: got %v after %v", err, time.Since(start))
	}
}

// Many that add at once share entries, one that is alone has one for each event; and
// whoever follows meanwhile sees every event once, each writer's in their order.
func TestJournal_of_many_writers_is_followed(t *testing.T) {
	t.Parallel()
	c, _ := dial(t)
	ns := place(t, c)
	const writers, each = 20, 300
	var wg sync.WaitGroup
	for w := range writers {
		j := openJournal(t, c, ns)
		wg.Go(func() {
			for i := range each {
				e := said(i)
				e.Source = fmt.Sprint("w", w)
				j.Add(e)
				if i%(w+1) == 0 {
					if err := j.Flush(soon(t)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	next, after := map[string]int{}, ""
	for n, ctx := 0, soon(t); n < writers*each; {
		got, err := AwaitJournal(ctx, c, ns, after, 7)
		if err != nil || len(got) > 7 {
			t.Fatalf("after %d: %d more, %v", n, len(got), err)
		}
		for _, e := range got {
			if want := said(next[e.Source]).ID; e.ID != want {
				t.Fatalf("%s says %s after %s, want %s", e.Source, e.ID, after, want)
			}
			next[e.Source]++
			after = e.Cursor
		}
		n += len(got)
	}
	wg.Wait()
	if n := c.XLen(soon(t), journalKey(ns)).Val(); n >= writers*each/2 {
		t.Errorf("%d entries of %d events", n, writers*each)
	}
	alone := openJournal(t, c, place(t, c))
	for i := range 10 {
		alone.Add(said(i))
		if err := alone.Flush(soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.XLen(soon(t), alone.key).Val(); n != 10 {
		t.Errorf("%d entries of 10 events that came one by one", n)
	}
}
