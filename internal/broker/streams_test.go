package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"notifylab/internal/notify"
	"notifylab/internal/servers/serverstest"
)

const quiet = 20 * time.Second // a stream that has entries shows one long before

// newStreams declares streams of the test's own, and deletes them in the end.
func newStreams(t *testing.T, n int) (b bench, names []string) {
	t.Helper()
	url, _ := serverstest.URLs(t)
	b = bench{url, Topology{Names: Names{notify.Namespace(serverstest.Namespace(t))}}}
	var all []Stream
	for i := range n {
		all = append(all, Stream{Name: b.Queue(fmt.Sprint("log.", i)), MaxBytes: 1 << 30})
		names = append(names, all[i].Name)
	}
	if err := b.dial(t).DeclareStreams(soon(t), all...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.dial(t).Delete(soon(t), names...); err != nil {
			t.Error(err)
		}
	})
	return b, names
}

// append puts n messages into a stream: from, from+1 and so on are their ids.
func (b bench) append(t *testing.T, p *Publisher, stream string, from, n int) {
	t.Helper()
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprint(from+i))
	}
	for _, fate := range b.publish(t, p, stream, ids...) {
		if fate != Confirmed {
			t.Fatal("a message of the test's own is", fate)
		}
	}
}

func read(t *testing.T, c *Conn, prefetch int, readings ...Reading) *Reader {
	t.Helper()
	r, err := c.Read(soon(t), prefetch, readings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// takeEntries takes and acks the next n entries: offset and id of each.
func takeEntries(t *testing.T, r *Reader, n int) (got []string) {
	t.Helper()
	for range n {
		select {
		case e, ok := <-r.Entries():
			if !ok {
				t.Fatal("no more entries: ", r.Err())
			}
			got = append(got, fmt.Sprint(e.Offset, "=", e.ID))
			if err := r.Ack(e); err != nil {
				t.Fatal(err)
			}
		case <-time.After(limit):
			t.Fatalf("no entry after %v", got)
		}
	}
	return got
}

func numbered(from, n int) (want []string) {
	for i := from; i < from+n; i++ {
		want = append(want, fmt.Sprint(i, "=", i))
	}
	return want
}

func TestConn_DeclareStreams(t *testing.T) {
	t.Parallel()
	b, names := newStreams(t, 1)
	c := b.dial(t)
	if err := c.DeclareStreams(soon(t), Stream{Name: names[0], MaxBytes: 1 << 30}); err != nil {
		t.Error("again: ", err)
	}
	err := c.DeclareStreams(soon(t), Stream{Name: names[0], MaxBytes: 1 << 29})
	var conflict *ConflictError
	if !errors.As(err, &conflict) || *conflict != (ConflictError{names[0], "x-max-length-bytes", "536870912", "1073741824"}) {
		t.Errorf("with another bound: %v", err)
	}
	if err := c.DeclareStreams(soon(t), Stream{Name: b.Queue("endless")}); err == nil || !strings.Contains(err.Error(), "without a bound") {
		t.Errorf("without a bound: %v", err)
	}
	if _, _, there, err := c.Ready(soon(t), b.Queue("endless")); there || err != nil {
		t.Errorf("without a bound it is there: %v, %v", there, err)
	}
	aged := Stream{Name: b.Queue("aged"), MaxAge: time.Hour, SegmentBytes: 1 << 20}
	if err := c.DeclareStreams(soon(t), aged); err != nil {
		t.Error("with a bound by age: ", err)
	}
	if err := c.Delete(soon(t), aged.Name); err != nil {
		t.Error(err)
	}
}

func TestConn_Read_begins_where_it_was_told(t *testing.T) {
	t.Parallel()
	b, names := newStreams(t, 1)
	c, p := b.dial(t), b.publisher(t, 64)
	b.append(t, p, names[0], 0, 20)
	starts := map[string]struct {
		from  Start
		first int
	}{
		"first": {AtFirst(), 0}, "0": {At(0), 0}, "the middle": {At(7), 7}, "the last": {At(19), 19},
		"the one to come": {At(20), 20}, "one beyond that": {At(23), 23}, "next": {AtNext(), 20}, "nothing said": {Start{}, 20},
	}
	readers := map[string]*Reader{}
	for name, s := range starts {
		readers[name] = read(t, c, 3, Reading{names[0], s.from})
	}
	b.append(t, p, names[0], 20, 10)
	for name, s := range starts {
		equal(t, name, takeEntries(t, readers[name], 30-s.first), numbered(s.first, 30-s.first))
	}
	// Somewhere before the end.
	e := <-read(t, c, 3, Reading{names[0], AtLast()}).Entries()
	if e.Offset < 20 || e.Offset > 29 || e.Stream != names[0] || string(e.Body) != e.ID || e.Headers[headerOffset] != e.Offset {
		t.Errorf("from last on: %+v", e)
	}
}

func TestConn_Read_hands_over_more_after_an_ack(t *testing.T) {
	t.Parallel()
	b, names := newStreams(t, 1)
	c, p := b.dial(t), b.publisher(t, 1) // each message is written by itself
	for i := range 10 {
		b.append(t, p, names[0], i, 1)
	}
	r := read(t, c, 2, Reading{names[0], AtFirst()})
	var last Entry
	n := 0
	for idle := false; !idle; {
		most := limit
		if n >= 2 {
			most = 300 * time.Millisecond
		}
		select {
		case last = <-r.Entries():
			n++
		case <-time.After(most):
			idle = true
		}
	}
	if n < 2 || n > 4 {
		t.Errorf("with a prefetch of 2 came %d entries", n)
	}
	if err := r.Ack(last); err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-r.Entries():
		if e.Offset != last.Offset+1 {
			t.Errorf("after %d came %d", last.Offset, e.Offset)
		}
	case <-time.After(limit):
		t.Error("nothing came after an ack")
	}
}

func TestConn_Read_of_several(t *testing.T) {
	t.Parallel()
	b, names := newStreams(t, 3)
	c, p := b.dial(t), b.publisher(t, 64)
	for _, name := range names {
		b.append(t, p, name, 0, 50)
	}
	r := read(t, c, 5, Reading{names[0], AtFirst()}, Reading{names[1], At(40)}, Reading{names[2], At(50)})
	got := map[string][]string{}
	for range 60 {
		e := <-r.Entries()
		got[e.Stream] = append(got[e.Stream], fmt.Sprint(e.Offset, "=", e.ID))
		if err := r.Ack(e); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "from the first", got[names[0]], numbered(0, 50))
	equal(t, "from the middle", got[names[1]], numbered(40, 10))
	b.append(t, p, names[2], 50, 1)
	equal(t, "from the end", takeEntries(t, r, 1), numbered(50, 1))
}

func TestReader_ends(t *testing.T) {
	t.Parallel()
	ended := func(t *testing.T, r *Reader, why string) {
		t.Helper()
		select {
		case <-r.Over():
		case <-time.After(limit):
			t.Fatal("it goes on")
		}
		for range r.Entries() {
		}
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("want %q, got %v", why, err)
		}
	}
	t.Run("when one of its streams is deleted", func(t *testing.T) {
		t.Parallel()
		b, names := newStreams(t, 2)
		b.append(t, b.publisher(t, 1), names[0], 0, 1)
		r := read(t, b.dial(t), 10, Reading{names[0], AtFirst()}, Reading{names[1], AtFirst()})
		if err := b.dial(t).Delete(soon(t), names[1]); err != nil {
			t.Fatal(err)
		}
		ended(t, r, names[1]+" was deleted")
	})
	t.Run("with its connection", func(t *testing.T) {
		t.Parallel()
		b, names := newStreams(t, 1)
		c := b.dial(t)
		r := read(t, c, 10, Reading{names[0], AtFirst()})
		if r.Err() != nil {
			t.Error(r.Err())
		}
		c.cut()
		ended(t, r, "connection lost")
	})
	t.Run("when it is closed, with entries in hand", func(t *testing.T) {
		t.Parallel()
		b, names := newStreams(t, 1)
		c, p := b.dial(t), b.publisher(t, 64)
		b.append(t, p, names[0], 0, 64)
		r := read(t, c, 10, Reading{names[0], AtFirst()})
		equal(t, "before", takeEntries(t, r, 1), numbered(0, 1))
		r.Close()
		ended(t, r, "closed")
		equal(t, "another one on that connection", takeEntries(t, read(t, c, 10, Reading{names[0], At(1)}), 63), numbered(1, 63))
	})
	t.Run("before it began, without such a stream", func(t *testing.T) {
		t.Parallel()
		b, names := newStreams(t, 1)
		c := b.dial(t)
		if _, err := c.Read(soon(t), 10, Reading{names[0], AtFirst()}, Reading{b.Queue("none"), AtFirst()}); err == nil || !strings.Contains(err.Error(), "no queue") {
			t.Errorf("got %v", err)
		}
		if _, _, err := c.End(soon(t), b.Queue("none"), quiet); err == nil || !strings.Contains(err.Error(), "no queue") {
			t.Errorf("end: %v", err)
		}
		if c.Closed() {
			t.Error("the connection has ended")
		}
	})
}

// Whatever is confirmed is before the end, however much the broker writes in one go.
func TestConn_End_right_after_the_confirm(t *testing.T) {
	t.Parallel()
	b, names := newStreams(t, 1)
	c, p := b.dial(t), b.publisher(t, 512)
	if last, ok, err := c.End(soon(t), names[0], 100*time.Millisecond); ok || err != nil {
		t.Fatalf("of nothing: %d, %v, %v", last, ok, err)
	}
	n := 0
	for _, more := range []int{1, 1, 2, 500, 1, 37, 512, 3, 300, 1} {
		b.append(t, p, names[0], n, more)
		n += more
		if last, ok, err := c.End(soon(t), names[0], quiet); last != int64(n-1) || !ok || err != nil {
			t.Errorf("of %d: %d, %v, %v", n, last, ok, err)
		}
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := c.End(over, names[0], quiet); !errors.Is(err, context.Canceled) {
		t.Errorf("without time: %v", err)
	}
}

func TestConn_ReadAll_takes_nothing_out(t *testing.T) {
	t.Parallel()
	b, names := newStreams(t, 2)
	c, p := b.dial(t), b.publisher(t, 1500)
	r, err := p.Start(soon(t), Message{Queue: names[0], ID: "0", Body: []byte("0"), Crash: "after-read"})
	if err != nil {
		t.Fatal(err)
	}
	if fate, err := r.Wait(soon(t)); fate != Confirmed {
		t.Fatal(fate, err)
	}
	b.append(t, p, names[0], 1, 1499)
	for range 3 {
		all, err := c.ReadAll(soon(t), names[0], quiet)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range all {
			got = append(got, fmt.Sprint(e.Offset, "=", e.ID))
		}
		equal(t, "all", got, numbered(0, 1500))
		if all[0].Crash != "after-read" || all[1].Crash != "" {
			t.Errorf("armed: %q, %q", all[0].Crash, all[1].Crash)
		}
	}
	if all, err := c.ReadAll(soon(t), names[1], 100*time.Millisecond); len(all) > 0 || err != nil {
		t.Errorf("of nothing: %v, %v", all, err)
	}
}
