package provider

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

func TestListen_says_that_the_port_is_taken(t *testing.T) {
	t.Parallel()
	at := strings.TrimPrefix(listen(t, New(Options{})).URL(), "http://")
	_, err := New(Options{}).Listen(at)
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("got %v", err)
	}
	if want := "listen on " + at + ": bind: address already in use"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestListen_gives_an_address_that_can_be_called(t *testing.T) {
	t.Parallel()
	r, err := New(Options{}).Listen(":0")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(soon(t))
	if !strings.HasPrefix(r.URL(), "http://127.0.0.1:") {
		t.Errorf("got %s", r.URL())
	}
	if got := client(t, r.URL(), ClientOptions{}).Send(soon(t), attempt("n", "7")); got.Answer != notify.Accepted {
		t.Errorf("got %+v", got)
	}
}

func TestListen_again_keeps_the_ledger(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	first := listen(t, s)
	c := client(t, first.URL(), ClientOptions{})
	c.Send(soon(t), keyed("n", "7"))
	for range 2 {
		if err := first.Close(soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	if r := c.Send(soon(t), keyed("n", "7")); r.Answer == notify.Accepted {
		t.Errorf("while it was away: %+v", r)
	}
	second := listen(t, s)
	if r := client(t, second.URL(), ClientOptions{}).Send(soon(t), keyed("n", "7")); r.Answer != notify.Accepted {
		t.Errorf("when it was back: %+v", r)
	}
	if s.Count(event.Accepted) != 1 || s.Count(event.Deduplicated) != 1 {
		t.Errorf("ledger: %+v", s.Calls())
	}
}

func TestClose_does_not_wait_for_connections_without_a_call(t *testing.T) {
	t.Parallel()
	r := listen(t, New(Options{}))
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	start := time.Now()
	if err := r.Close(soon(t)); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestClose_waits_for_an_answer_no_longer_than_its_context(t *testing.T) {
	t.Parallel()
	inside, finish := make(chan struct{}), make(chan struct{})
	s := New(Options{Emit: func(event.Event) { close(inside); <-finish }})
	r := listen(t, s)
	result := sendAside(t, soon(t), client(t, r.URL(), ClientOptions{}), attempt("n", "7"))
	<-inside
	ctx, cancel := context.WithCancel(soon(t))
	closed := make(chan error, 1)
	go func() { closed <- r.Close(ctx) }()
	select {
	case err := <-closed:
		t.Errorf("closed with a call in hand: %v", err)
	case <-r.life.closing:
	}
	cancel()
	if err := <-closed; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(finish)
	if got := <-result; got.Answer != notify.Unknown {
		t.Errorf("got %+v, want unknown", got)
	}
}
