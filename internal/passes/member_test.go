package passes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
)

// A run is one member in this process.
type run struct {
	*place
	history event.History
	stop    context.CancelFunc
	ended   chan struct{}
	err     error

	mu   sync.Mutex
	conn *broker.Conn // its own
}

// member starts a member on a place, with a handler; change may alter the rest.
func (p *place) member(name string, handle func(context.Context, Record) error, change ...func(*Config)) *run {
	p.t.Helper()
	r := &run{place: p, ended: make(chan struct{})}
	cfg := Config{
		Log: p.log, Group: p.group("notify"), Name: name, Handle: handle, Emit: r.history.Add,
		Open: func(ctx context.Context) (*broker.Conn, error) {
			c, err := broker.Dial(ctx, broker.Config{URL: p.amqp, Name: "test " + name, Heartbeat: 10 * time.Second, Timeout: limit})
			r.mu.Lock()
			defer r.mu.Unlock()
			r.conn = c
			return c, err
		},
		TTL: long, Beat: 20 * time.Millisecond, Prefetch: 10, Backoff: 5 * time.Millisecond, CrashPoints: true,
	}
	for _, f := range change {
		f(&cfg)
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	go func() {
		defer close(r.ended)
		r.err = NewMember(cfg).Run(ctx)
	}()
	p.t.Cleanup(func() { r.stop(); r.end() })
	return r
}

// end returns how the member ended.
func (r *run) end() error {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(limit):
		r.t.Fatal("it goes on")
	}
	return r.err
}

func (r *run) await(what string, match func(event.Event) bool) event.Event {
	r.t.Helper()
	e, err := r.history.Await(soon(r.t), match)
	if err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
	return e
}

// takes is a handler that notes what it got.
func takes(got chan<- Record) func(context.Context, Record) error {
	return func(_ context.Context, r Record) error { got <- r; return nil }
}

// next is the next record that such a handler got.
func next(t *testing.T, got <-chan Record) Record {
	t.Helper()
	select {
	case r := <-got:
		return r
	case <-time.After(limit):
		t.Fatal("nothing is handled")
	}
	return Record{}
}

func TestMember_whose_handler_refuses(t *testing.T) {
	t.Parallel()
	t.Run("tries it again, and everything behind waits", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 1)
		p.publish(posts(0, 3, 1)...)
		var got []string
		n := 0
		r := p.member("c1", func(_ context.Context, r Record) error {
			got = append(got, r.ID)
			if n++; r.ID == "e1" && n < 5 {
				return errors.New("busy")
			}
			return nil
		})
		r.await("e2 is not committed", about(event.Committed, "e2"))
		r.stop()
		same(t, "end", r.end(), nil)
		same(t, "handled", fmt.Sprint(got), "[e0 e1 e1 e1 e1 e2]")
		retries := only(r.history.All(), about(event.Retry, "e1"))
		if len(retries) != 3 || retries[2].Attempt != 3 || retries[2].Reason != "busy" || retries[2].BackoffMS != 5 {
			t.Errorf("retries: %+v", retries)
		}
	})
	t.Run("does not try it again when it was committed before", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 1)
		p.publish(posts(0, 2, 1)...)
		r := p.member("c1", func(_ context.Context, r Record) error { return errors.New("busy") }, func(c *Config) { c.CommitFirst = true })
		r.await("e1 is not given up", about(event.Note, "e1"))
		r.stop()
		same(t, "end", r.end(), nil)
		same(t, "said", kinds(only(r.history.All(), func(e event.Event) bool { return e.Position != nil })), "read committed note read committed note")
	})
	t.Run("stops trying when it is told to stop", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 1)
		p.publish(posts(0, 1, 1)...)
		r := p.member("c1", func(context.Context, Record) error { return errors.New("busy") }, func(c *Config) { c.Backoff = long })
		r.await("no retry", about(event.Retry, "e0"))
		r.stop()
		same(t, "end", r.end(), nil)
		same(t, "cursor", ok[State](t)(p.group("notify").Look(soon(t))).Cursor(0), int64(-1))
	})
}

func TestMember_passes_over_what_is_no_event(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 1)
	pub := ok[*broker.Publisher](t)(p.conn.Publisher(context.Background(), 8))
	receipt := ok[*broker.Receipt](t)(pub.Start(soon(t), broker.Message{Queue: p.log.Queue(0), ID: "odd", Body: []byte("{}"), Crash: "before-commit,always"}))
	if fate, err := receipt.Wait(soon(t)); fate != broker.Confirmed {
		t.Fatal(fate, err)
	}
	all := posts(0, 2, 1)
	all[0].Crash = "before-ack" // is of another room
	all[1].Crash = string(BeforeCommit)
	p.publish(all...)
	got := make(chan Record, 10)
	r := p.member("c1", takes(got))
	r.await("e1 is not committed", about(event.Committed, "e1"))
	same(t, "handled", []Record{next(t, got), next(t, got)}, []Record{{all[0].Expired, 0, 1}, {all[1].Expired, 0, 2}})
	notes := only(r.history.All(), func(e event.Event) bool { return e.Kind == event.Note })
	if len(notes) != 3 || notes[0].ID != "odd" || !strings.Contains(notes[0].Reason, "id is empty") ||
		!strings.Contains(notes[1].Reason, `no crash point "before-ack"`) || !strings.Contains(notes[2].Reason, "does not fire") {
		t.Errorf("notes: %+v", notes)
	}
}

func TestMember_told_to_stop_finishes_what_is_in_hand(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2)
	p.publish(posts(0, 20, 20)...)
	in, out := make(chan Record), make(chan struct{})
	var cancelled atomic.Bool
	r := p.member("c1", func(ctx context.Context, r Record) error {
		in <- r
		<-out
		cancelled.Store(ctx.Err() != nil)
		return nil
	}, func(c *Config) { c.TTL = time.Second })
	first := <-in
	r.stop()
	select {
	case <-r.ended:
		t.Fatal("it ended with something in hand")
	case <-time.After(1200 * time.Millisecond): // more than its time to live
	}
	// Its beats may be late for once, but it goes on with them.
	for ctx := soon(t); ; {
		m, there := ok[State](t)(p.group("notify").Look(ctx)).Member("c1")
		if there && m.Left >= 0 {
			break
		}
		if !pause(ctx, 10*time.Millisecond) {
			t.Fatalf("it counts as dead: %+v", m)
		}
	}
	close(out)
	same(t, "end", r.end(), nil)
	s := ok[State](t)(p.group("notify").Look(soon(t)))
	if s.Cursor(first.Partition) != first.Offset || s.Generation != 2 || len(s.Members) != 0 || cancelled.Load() {
		t.Errorf("%+v, cancelled %v", s, cancelled.Load())
	}
	same(t, "said", kinds(r.history.All()), "ready joined assigned read committed left")
}

func TestMember_whose_name_another_takes(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2)
	one := p.member("c1", takes(make(chan Record, 100)))
	one.await("it does not join", is(event.Assigned, "c1"))
	other := p.member("c1", takes(make(chan Record, 100)))
	if err := one.end(); !errors.Is(err, ErrReplaced) {
		t.Errorf("got %v", err)
	}
	p.publish(posts(0, 4, 4)...)
	other.await("the other does not go on", about(event.Committed, "e3"))
	same(t, "members", shape(ok[State](t)(p.group("notify").Look(soon(t))))[:6], "2 [c1]")
}

func TestMember_of_another_log_does_not_join(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2)
	p.member("c1", takes(make(chan Record, 100))).await("it does not join", is(event.Joined, "c1"))
	err := p.member("c2", nil, func(c *Config) { c.Group = NewGroup(p.client, Log{p.log.Namespace, 3}, "notify", 0) }).end()
	if !errors.Is(err, ErrPartitions) {
		t.Errorf("got %v", err)
	}
}

func TestMember_that_loses_its_connection(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2)
	got := make(chan Record, 100)
	r := p.member("c1", takes(got))
	for round := range 3 {
		all := posts(round*10, 10, 10)
		p.publish(all...)
		for range all {
			next(t, got)
		}
		r.mu.Lock()
		r.conn.Close()
		r.mu.Unlock()
	}
	p.publish(posts(30, 10, 10)...)
	for range 10 {
		next(t, got)
	}
	r.stop()
	same(t, "end", r.end(), nil)
	events := r.history.All()
	same(t, "wrong", judge(events), []string(nil))
	times := map[string]int{}
	for _, e := range only(events, func(e event.Event) bool { return e.Kind == event.Committed }) {
		times[e.ID]++
	}
	same(t, "not committed just once", otherwise(times), []string(nil))
	if n := len(only(events, is(event.Disconnect, "c1"))); len(times) != 40 || n < 1 || n > 3 {
		t.Errorf("%d committed, %d disconnects", len(times), n)
	}
}

// away is Redis that does not answer, for as long as it is set.
type away struct{ set atomic.Bool }

var errAway = errors.New("nobody answers")

func (a *away) DialHook(next redis.DialHook) redis.DialHook { return next }
func (a *away) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if a.set.Load() {
			cmd.SetErr(errAway)
			return errAway
		}
		return next(ctx, cmd)
	}
}
func (a *away) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestMember_without_Redis(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 1)
	client := ok[idem.Client](t)(idem.Dial(p.redis, 4))
	defer client.Close()
	var redisAway away
	client.AddHook(&redisAway)
	all := posts(0, 3, 1)
	got := make(chan Record)
	r := p.member("c1", takes(got), func(c *Config) {
		c.Group, c.TTL = NewGroup(client, p.log, "notify", 0), 300*time.Millisecond
	})
	r.await("it is not assigned", is(event.Assigned, "c1"))
	p.publish(all...)
	r.await("e0 is not read", about(event.Read, "e0"))
	redisAway.set.Store(true)
	next(t, got) // it does not know yet
	r.await("it does not say so", is(event.Disconnect, "c1"))
	select {
	case r := <-got:
		t.Errorf("%s is handled, and the one before it not committed", r.ID)
	case <-time.After(500 * time.Millisecond): // more than its time to live
	}
	redisAway.set.Store(false)
	next(t, got)
	next(t, got)
	r.await("e2 is not committed", about(event.Committed, "e2"))
	same(t, "said", kinds(only(r.history.All(), func(e event.Event) bool { return e.Kind != event.Assigned })),
		"ready joined read disconnect reconnected committed read committed read committed")
	// And when there is nothing to commit: it says so when its time is over.
	n := r.history.Len()
	redisAway.set.Store(true)
	if _, err := r.history.AwaitFrom(soon(t), n, is(event.Disconnect, "c1")); err != nil {
		t.Error(err)
	}
	redisAway.set.Store(false)
	if _, err := r.history.AwaitFrom(soon(t), n, is(event.Assigned, "c1")); err != nil {
		t.Error(err)
	}
	r.stop()
	same(t, "end", r.end(), nil)
}

// One that was silent for its whole time asks before it begins anything: what it has
// fetched may be another's by now.
func TestMember_that_was_silent_asks_first(t *testing.T) {
	t.Parallel()
	// silent is heard once, when it joins. c2 takes everything over when it counts as
	// dead, and returns the generation.
	silent := func(c *Config) { c.TTL, c.Beat = 100*time.Millisecond, long }
	takeOver := func(p *place) int64 {
		t.Helper()
		awaitDead(t, p.group("notify"), "c1")
		s := ok[State](t)(p.group("notify").Join(soon(t), who("c2")))
		same(t, "members", s.Names(), []string{"c2"})
		return s.Generation
	}
	t.Run("after a long handling", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 1)
		p.publish(posts(0, 5, 1)...)
		in, out := make(chan Record), make(chan struct{})
		r := p.member("c1", func(_ context.Context, r Record) error {
			in <- r
			<-out
			return nil
		}, silent, func(c *Config) { c.CommitFirst = true }) // e0 is committed when its handling begins
		<-in
		if c := ok[Commit](t)(p.group("notify").Commit(soon(t), takeOver(p), 0, 4)); !c.Committed {
			t.Errorf("%+v", c)
		}
		close(out)
		r.await("it does not ask", func(e event.Event) bool { return e.Kind == event.Assigned && len(e.Members) == 2 })
		same(t, "read", kinds(only(r.history.All(), func(e event.Event) bool { return e.Position != nil })), "read committed")
	})
	t.Run("after a long wait", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 1)
		r := p.member("c1", takes(make(chan Record, 10)), silent)
		r.await("it is not assigned", is(event.Assigned, "c1"))
		second := takeOver(p)
		p.publish(posts(0, 1, 1)...)
		e := r.await("e0 is not committed", about(event.Committed, "e0"))
		if e.Generation <= second {
			t.Errorf("committed in generation %d", e.Generation)
		}
		for _, e := range only(r.history.All(), about(event.Read, "e0")) {
			if e.Generation <= second {
				t.Errorf("read in generation %d, c2 has it in %d", e.Generation, second)
			}
		}
	})
}

func TestProducer(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 4)
	var said []event.Event
	var err error
	if p.producer, err = NewProducer(context.Background(), p.conn, p.log, "producer", func(e event.Event) { said = append(said, e) }); err != nil {
		t.Fatal(err)
	}
	all := posts(0, 200, 20)
	p.publish(all...)
	contents := p.contents()
	want := make([][]string, 4)
	for i, post := range all {
		at := p.log.Partition(post.Pass)
		want[at] = append(want[at], post.ID)
		if e := said[i]; e.Kind != event.Queued || e.ID != post.ID || e.User != post.User || e.Queue != p.log.Queue(at) || e.Source != "producer" {
			t.Fatalf("%d: %+v", i, e)
		}
	}
	same(t, "in the log, a key in one partition and in its order", contents, want)

	if err := p.producer.Publish(soon(t), Post{Expired: Expired{ID: "e", User: "7"}}); err == nil || !strings.Contains(err.Error(), "publish e: pass") {
		t.Errorf("without a pass: %v", err)
	}
	missing := all[0]
	if err := p.conn.Delete(soon(t), p.log.Queue(p.log.Partition(missing.Pass))); err != nil {
		t.Fatal(err)
	}
	if err := p.producer.Publish(soon(t), missing); err == nil || !strings.Contains(err.Error(), "publish e0: returned: 312") {
		t.Errorf("without its stream: %v", err)
	}
	if len(said) != len(all) {
		t.Errorf("%d events were said to be queued, want %d", len(said), len(all))
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2)
	ctx := soon(t)
	all := posts(0, 12, 12)
	p.publish(all...)
	ends := make([]int64, 2)
	for i, in := range p.contents() {
		ends[i] = int64(len(in)) - 1
	}
	one := p.group("one")
	s := ok[State](t)(one.Join(ctx, who("c1")))
	ok[Commit](t)(one.Commit(ctx, s.Generation, 0, 1))
	ok[State](t)(p.group("two").Join(ctx, who("d1").livingFor(time.Millisecond)))
	awaitDead(t, p.group("two"), "d1")
	want := []Row{
		{"one", 0, 1, ends[0], ends[0] - 1, "c1", 1}, {"one", 1, -1, ends[1], ends[1] + 1, "c1", 1},
		{"two", 0, -1, ends[0], ends[0] + 1, "", 1}, {"two", 1, -1, ends[1], ends[1] + 1, "", 1},
	}
	same(t, "all", ok[[]Row](t)(Status(ctx, p.client, p.conn, p.log.Namespace, 10*time.Second)), want)
	same(t, "one", ok[[]Row](t)(Status(ctx, p.client, p.conn, p.log.Namespace, 10*time.Second, "two")), want[2:])
	same(t, "none", ok[[]Row](t)(Status(ctx, p.client, p.conn, p.log.Namespace, 10*time.Second, "three")), []Row{})
	if err := p.conn.Delete(ctx, p.log.Queue(1)); err != nil {
		t.Fatal(err)
	}
	want[1].End, want[1].Lag = -1, 0
	same(t, "without a stream", ok[[]Row](t)(Status(ctx, p.client, p.conn, p.log.Namespace, 10*time.Second, "one")), want[:2])
}
