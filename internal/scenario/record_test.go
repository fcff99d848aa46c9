package scenario

import (
	"context"
	"testing"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// TestStage_settled counts what a consumer had in hand when it died, however shortly
// after that it is asked: the broker's own count may not have it yet.
func TestStage_settled(t *testing.T) {
	t.Parallel()
	const messages = 50
	r := newRig(t)
	ctx := within(t)
	s, err := setUp(ctx, r.Config, []notify.Channel{notify.Push})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.tearDown(); err != nil {
			t.Error(err)
		}
	}()
	var posts []post
	for i := range messages {
		posts = append(posts, post{s.notification(i+1, "7", "hello"), notify.Push, ""})
	}
	if err := s.publish(ctx, posts...); err != nil {
		t.Fatal(err)
	}
	work, early := s.topology.Work(notify.Push), 0
	for i := range 20 {
		die := consume(t, ctx, s, messages)
		if n, err := s.conn.Look(ctx, work, 1); err != nil || len(n) > 0 {
			t.Fatalf("consumer %d has not all in hand: %v, %v", i, n, err)
		}
		die()
		n, _, _, err := s.conn.Ready(ctx, work)
		if err != nil {
			t.Fatal(err)
		}
		if n != messages {
			early++
		}
		if n, err := s.settled(ctx, work); n != messages || err != nil {
			t.Fatalf("consumer %d: %d messages, %v; want %d", i, n, err, messages)
		}
	}
	t.Logf("the broker's own count was too early %d times", early)
}

// consume starts a consumer that takes so many messages and settles none. What it
// returns ends it as death would: without a word.
func consume(t *testing.T, ctx context.Context, s *stage, messages int) (die func()) {
	t.Helper()
	cable, err := layCable(s.AMQPURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cable.Close)
	session, err := broker.Open(ctx, broker.SessionConfig{
		Config:   broker.Config{URL: cable.url, Name: "notifylab test", Heartbeat: 10 * time.Second, Timeout: 10 * time.Second},
		Topology: s.topology, Prefetch: messages, PublishTimeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	for range messages {
		select {
		case <-session.Deliveries():
		case <-ctx.Done():
			t.Fatal("too few deliveries")
		}
	}
	t.Cleanup(func() { session.Close(ctx) })
	return func() { cable.cut() }
}

// A message that is handed over when time is up is not lost, whatever the queues hold.
func TestRecord_handedOver(t *testing.T) {
	t.Parallel()
	r := &Record{Events: []event.Event{w1(event.Received), w1(event.Sent), w1(event.GivenBack), handed(1), w1(event.Sent)}}
	for n, want := range []bool{true, true, true, true, false, false} {
		if got := r.handedOver(n); got != want {
			t.Errorf("from %d on: %v, want %v", n, got, want)
		}
	}
}
