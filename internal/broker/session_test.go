package broker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"notifylab/internal/notify"
)

// Not parallel: what runs besides must not come or go.
func TestSession_LeavesNothingBehind(t *testing.T) {
	b := newBench(t)
	b.fill(t, 50)
	none := goleak.IgnoreCurrent()
	for i := range 50 {
		s, err := Open(soon(t), b.sessionConfig(8))
		if err != nil {
			t.Fatal(err)
		}
		d := next(t, s)
		switch i % 3 {
		case 0: // as a worker stops
			s.Ack(d)
			if err := s.Cancel(soon(t)); err != nil {
				t.Error(err)
			}
		case 1: // cut off, nobody looked
			s.conn.cut()
			_ = s.Park(soon(t), d, notify.Failure{})
		case 2: // with a copy in flight
			go func() { _ = s.Park(context.Background(), d, notify.Failure{}) }()
		}
		s.Close(soon(t))
	}
	err := goleak.Find(none)
	for began := time.Now(); err != nil && time.Since(began) < 10*time.Second; { // a busy machine takes its time to end them
		err = goleak.Find(none)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestSession_GivesBackTheRestAtOnceAndInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(t, 20)
	s := b.open(t, 10)
	all := nextN(t, s, 10)
	for _, i := range []int{9, 1, 4} {
		s.Ack(all[i])
	}
	nextN(t, s, 3) // in the place of the acked ones
	for range 2 {
		if err := s.Cancel(soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	for range s.Deliveries() {
		t.Error("more than prefetch in hand")
	}
	s.Ack(all[0]) // settled after the cancel, as by a handler that was still at work
	b.awaitReady(t, b.work(), 6)
	if n := s.Close(soon(t)); n != 10 {
		t.Errorf("want 10 given back, got %d", n)
	}
	s.Ack(all[2])
	b.awaitReady(t, b.work(), 16)
	equal(t, "again", idsOf(nextN(t, b.open(t, 20), 16)), []string{
		"m3", "m4", "m6", "m7", "m8", "m9", "m11", "m12", "m13", "m14", "m15", "m16", "m17", "m18", "m19", "m20"})
}

// Close alone gives back what nobody took from Deliveries, too, and not to
// itself.
func TestSession_CloseCountsWhatNobodyTook(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(t, 20)
	s := b.open(t, 10)
	d := next(t, s)
	if err := s.AckNow(soon(t), d); err != nil {
		t.Fatal(err)
	}
	b.awaitReady(t, b.work(), 9) // the place of the acked one is taken
	if n := s.Close(soon(t)); n != 10 {
		t.Errorf("want 10 given back, got %d", n)
	}
	if _, open := <-s.Deliveries(); open {
		t.Error("deliveries go on after the end")
	}
	s = b.open(t, 20)
	for i, d := range nextN(t, s, 19) {
		if want := i < 10; d.Redelivered != want || d.Counted && d.Count != 1 {
			t.Errorf("%s: redelivered %v, count %d", idOf(d), d.Redelivered, d.Count)
		}
	}
}

// php-amqplib/php-amqplib#95
func TestSession_IsOverWhenItsQueueIsDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(t, 2)
	s := b.open(t, 1)
	d := next(t, s)
	if err := b.dial(t).Delete(soon(t), b.work()); err != nil {
		t.Fatal(err)
	}
	if why := awaitOver(t, s); !strings.Contains(why.Error(), "consumer cancelled: "+b.work()) {
		t.Errorf("over because %v", why)
	}
	for range s.Deliveries() {
		t.Error("a delivery after the end")
	}
	wantIs(t, s.Check(soon(t)), notify.ErrSessionOver)
	wantIs(t, s.Cancel(soon(t)), notify.ErrSessionOver)
	wantIs(t, s.Park(soon(t), d, notify.Failure{}), notify.ErrSessionOver)
	if n := s.Close(soon(t)); n != 0 {
		t.Errorf("%d given back to a queue that is gone", n)
	}
}

// A failure of either connection is the session's.
func TestSession_IsOverWithEitherConnection(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(t, 1)
	for name, cut := range map[string]func(*Session){
		"consuming": func(s *Session) { s.conn.cut() },
		"copies":    func(s *Session) { s.copyConn.cut() },
	} {
		s := b.open(t, 1)
		next(t, s) // given to the next one, so its end is no secret to the broker
		cut(s)
		if why := awaitOver(t, s); !strings.Contains(why.Error(), "connection lost") {
			t.Errorf("%s: over because %v", name, why)
		}
	}
}

// Who stops waiting does not end the session of all the others.
func TestSession_OutlivesACallersContext(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(t, 2)
	s := b.open(t, 2)
	d := next(t, s)
	stopped := errors.New("stopped by the test")
	ctx, stop := context.WithCancelCause(context.Background())
	stop(stopped)
	for range 100 {
		if err := s.Check(ctx); err != nil && !errors.Is(err, stopped) {
			t.Error(err)
		}
		if err := s.AckNow(ctx, d); err != nil && !errors.Is(err, stopped) {
			t.Error(err)
		}
	}
	if err := s.Check(soon(t)); err != nil {
		t.Error(err, s.Err())
	}
	if n := s.Close(soon(t)); n != 1 {
		t.Errorf("want 1 given back, got %d", n)
	}
}

func TestOpen_AnswersForAQueueThatIsNotThere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if err := b.dial(t).Delete(soon(t), b.work()); err != nil {
		t.Fatal(err)
	}
	cfg := b.sessionConfig(1)
	if _, err := Open(soon(t), cfg); err == nil || !strings.Contains(err.Error(), "consume "+b.work()) {
		t.Errorf("got %v", err)
	}
	cfg.Declare = true
	openWith(t, cfg)
}

func TestConn_ReadyCountsWhatIsNotHandedOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fill(t, 5)
	s := b.open(t, 2)
	nextN(t, s, 2)
	c := b.dial(t)
	if messages, consumers, ok, err := c.Ready(soon(t), b.work()); messages != 3 || consumers != 1 || !ok || err != nil {
		t.Errorf("got %d, %d, %v, %v", messages, consumers, ok, err)
	}
	if _, _, ok, err := c.Ready(soon(t), b.Queue("nowhere")); ok || err != nil {
		t.Errorf("got %v, %v", ok, err)
	}
}
