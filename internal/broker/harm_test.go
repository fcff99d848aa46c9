package broker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"notifylab/internal/notify"
	"notifylab/internal/servers"
	"notifylab/internal/servers/serverstest"
)

// The tests that harm a broker share one, and take turns: it takes seconds to
// start.
func TestHarmed(t *testing.T) {
	t.Parallel()
	pair := serverstest.Own(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *servers.Pair, bench)
	}{
		{"alarm", alarm},
		{"connections closed by the broker while nobody looks", closedByTheBroker},
		{"stands still", standsStill},
		{"stands still with the socket full", standsStillWithTheSocketFull},
		{"stands still and goes on", goesOn},
		{"killed in mid-flight", killed},
		{"stopped", stopped},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, pair, harmedBench(t, pair)) })
	}
}

// harmedBench is not cleaned up: its broker may be gone, and ends with the test.
func harmedBench(t *testing.T, pair *servers.Pair) bench {
	t.Helper()
	b := bench{url: pair.AMQPURL, Topology: Topology{
		Names:    Names{notify.Namespace(serverstest.Namespace(t))},
		Channels: []notify.Channel{notify.Push},
		Type:     Quorum,
	}}
	if err := b.dial(t).Declare(soon(t), b.Topology); err != nil {
		t.Fatal(err)
	}
	return b
}

func ctl(t *testing.T, pair *servers.Pair, args ...string) {
	t.Helper()
	if _, err := pair.Rabbitmqctl(deadline(t, nodeLimit), args...); err != nil {
		t.Fatal(err)
	}
}

// nodeLimit is for what starts or stops a node, or a runtime beside it: a busy machine
// takes longer for that than for all else. It never passes when all is well.
const nodeLimit = 4 * time.Minute

// stall is how much longer than promised anything may take on a busy machine.
const stall = 10 * time.Second

// promptly fails if do takes longer: it is what a caller has been promised.
func promptly(t *testing.T, what string, most time.Duration, do func()) {
	t.Helper()
	began := time.Now()
	do()
	if took := time.Since(began); took > most+stall {
		t.Errorf("%s took %v, more than %v", what, took, most+stall)
	}
}

func deadline(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func closedByTheBroker(t *testing.T, pair *servers.Pair, b bench) {
	b.fill(t, 1)
	s := b.open(t, 1)
	d := next(t, s)
	ctl(t, pair, "close_all_connections", "maintenance")
	wantIs(t, s.Check(soon(t)), notify.ErrSessionOver)
	if why := awaitOver(t, s); !strings.Contains(why.Error(), "CONNECTION_FORCED") || !strings.Contains(why.Error(), "maintenance") {
		t.Errorf("over because %v", why)
	}
	wantIs(t, s.AckNow(soon(t), d), notify.ErrSessionOver)
	if again := next(t, b.open(t, 1)); idOf(again) != idOf(d) {
		t.Errorf("want %s again, got %s", idOf(d), idOf(again))
	}
}

// A broker that stands still, its connections open: heartbeats tell.
func standsStill(t *testing.T, pair *servers.Pair, b bench) {
	b.fill(t, 2)
	cfg := b.sessionConfig(1)
	cfg.Heartbeat = time.Second
	s := openWith(t, cfg)
	next(t, s)
	slow := b.open(t, 1) // finds out by a round trip
	slow.publishTimeout = 500 * time.Millisecond
	d := next(t, slow)
	c, idle := b.dial(t), b.open(t, 1)
	if err := pair.Suspend(soon(t), servers.RabbitMQ); err != nil {
		t.Fatal(err)
	}
	defer resume(t, pair)
	promptly(t, "a close whose time is over", time.Second+closeLimit+2*time.Second, func() { idle.Close(deadline(t, time.Second)) })
	promptly(t, "an ack with its round trip", 3*time.Second, func() { wantIs(t, slow.AckNow(soon(t), d), notify.ErrSessionOver) })
	promptly(t, "the end by heartbeats", 5*time.Second, func() { awaitOver(t, s) })
	promptly(t, "a declare", 3*time.Second, func() {
		err := c.Declare(deadline(t, time.Second), b.Topology)
		var unreachable *UnreachableError
		if !errors.As(err, &unreachable) {
			t.Errorf("got %v", err)
		}
		wantIs(t, err, context.DeadlineExceeded)
	})
	promptly(t, "opening", 3*time.Second, func() {
		_, err := Open(deadline(t, time.Second), cfg)
		wantIs(t, err, context.DeadlineExceeded)
	})
	promptly(t, "close", closeLimit+2*time.Second, func() { s.Close(soon(t)) })
}

// The library holds a lock while a write is blocked, and needs it to end.
func standsStillWithTheSocketFull(t *testing.T, pair *servers.Pair, b bench) {
	cfg := b.config()
	cfg.Heartbeat = time.Second
	c, err := Dial(soon(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	p, err := c.Publisher(context.Background(), 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := pair.Suspend(soon(t), servers.RabbitMQ); err != nil {
		t.Fatal(err)
	}
	defer resume(t, pair)
	var receipts []*Receipt
	for range 64 {
		r, err := p.Start(soon(t), Message{Queue: b.work(), Body: make([]byte, 1<<20)})
		if err != nil {
			break // over by now
		}
		receipts = append(receipts, r)
	}
	promptly(t, "the end by heartbeats", 5*time.Second, func() {
		for _, r := range receipts {
			if fate, why := r.Wait(soon(t)); fate != Unknown || !strings.Contains(why.Error(), "connection") {
				t.Fatalf("got %v, %v", fate, why)
			}
		}
		<-p.Over()
	})
	promptly(t, "close", time.Second, func() { c.Close() })
}

// Overdue messages stay in the window: their returns still come, and must leave
// room for those of others.
func goesOn(t *testing.T, pair *servers.Pair, b bench) {
	const most = 4 * time.Second // the library waits 5 s for room for a return
	took := b.goOn(t, pair)
	for tries := 1; took > most && tries < 3; tries++ { // a busy machine is not slow each time
		took = min(took, b.goOn(t, pair))
	}
	if took > most {
		t.Errorf("what follows took %v, more than %v", took, most)
	}
}

// goOn says how long what follows takes, once the broker goes on.
func (b bench) goOn(t *testing.T, pair *servers.Pair) time.Duration {
	t.Helper()
	p := b.publisher(t, 4)
	if err := pair.Suspend(soon(t), servers.RabbitMQ); err != nil {
		t.Fatal(err)
	}
	nowhere := Message{Queue: b.Queue("nowhere")}
	expired, cancel := context.WithCancel(context.Background())
	cancel()
	for range 4 {
		r, err := p.Start(soon(t), nowhere)
		if err != nil {
			t.Fatal(err)
		}
		if fate, why := r.Wait(expired); fate != Unknown {
			t.Errorf("got %v, %v", fate, why)
		}
	}
	if _, err := p.Start(deadline(t, 200*time.Millisecond), nowhere); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a fifth in a window of four: %v", err)
	}
	resume(t, pair)
	began := time.Now()
	for range 50 {
		equal(t, "after", b.publish(t, p, nowhere.Queue, "a", "b", "c", "d"), []Fate{Returned, Returned, Returned, Returned})
	}
	return time.Since(began)
}

func resume(t *testing.T, pair *servers.Pair) {
	t.Helper()
	if err := pair.Resume(soon(t), servers.RabbitMQ); err != nil {
		t.Fatal(err)
	}
}

func killed(t *testing.T, pair *servers.Pair, b bench) {
	b.fill(t, 1)
	s, p := b.open(t, 1), b.publisher(t, 4096)
	next(t, s)
	type result struct {
		fate Fate
		why  error
	}
	results, flowing := make(chan result, 1<<20), make(chan struct{})
	go func() {
		defer close(results)
		var receipts []*Receipt
		for n := 0; ; n++ {
			r, err := p.Start(soon(t), Message{Queue: b.work(), Body: make([]byte, 2000)})
			if err != nil {
				break
			}
			receipts = append(receipts, r)
			if len(receipts) < 4000 {
				continue
			}
			if n == 3999 {
				close(flowing)
			}
			fate, why := receipts[0].Wait(soon(t))
			receipts = receipts[1:]
			results <- result{fate, why}
		}
		for _, r := range receipts {
			fate, why := r.Wait(soon(t))
			results <- result{fate, why}
		}
	}()
	<-flowing
	if err := pair.Kill(soon(t), servers.RabbitMQ); err != nil {
		t.Fatal(err)
	}
	promptly(t, "the end", 5*time.Second, func() {
		counts := map[Fate]int{}
		for r := range results {
			counts[r.fate]++
			if r.fate == Unknown && r.why == nil || r.fate != Unknown && r.fate != Confirmed {
				t.Errorf("got %v, %v", r.fate, r.why)
			}
		}
		t.Log(counts)
		if counts[Unknown] == 0 {
			t.Error("killed too late: nothing was in flight")
		}
		awaitOver(t, s)
	})
	if err := pair.Start(deadline(t, nodeLimit), servers.RabbitMQ); err != nil {
		t.Fatal(err)
	}
}

func stopped(t *testing.T, pair *servers.Pair, b bench) {
	s := b.open(t, 1)
	if err := pair.Stop(deadline(t, nodeLimit), servers.RabbitMQ); err != nil {
		t.Fatal(err)
	}
	if why := awaitOver(t, s); why == nil {
		t.Error("over, and no word why")
	}
	_, err := Open(soon(t), b.sessionConfig(1))
	var unreachable *UnreachableError
	if !errors.As(err, &unreachable) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
}
