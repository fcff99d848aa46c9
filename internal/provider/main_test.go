package provider

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"notifylab/internal/notify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soon returns a context that ends only when something is wrong.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// listen runs s until the test ends.
func listen(t *testing.T, s *Server) *Running {
	t.Helper()
	r, err := s.Listen("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(soon(t)); err != nil {
			t.Error(err)
		}
	})
	return r
}

func client(t *testing.T, url string, o ClientOptions) *Client {
	t.Helper()
	c, err := NewClient(url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// pair is a server with faults and a client of it.
func pair(t *testing.T, f Faults) (*Server, *Client) {
	t.Helper()
	s := New(Options{Faults: f})
	return s, client(t, listen(t, s).URL(), ClientOptions{})
}

func attempt(id, user string) notify.Attempt {
	return notify.Attempt{Channel: notify.Push, Notification: notify.Notification{ID: id, User: user, Text: "hello"}}
}

func keyed(id, user string) notify.Attempt {
	a := attempt(id, user)
	a.Key = notify.ProviderKey(a.Notification, a.Channel)
	return a
}

// sendAside sends in the background. The result comes on the channel, and the
// test does not end before it.
func sendAside(t *testing.T, ctx context.Context, c *Client, a notify.Attempt) <-chan notify.Result {
	t.Helper()
	results, done := make(chan notify.Result, 1), make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(done)
		results <- c.Send(ctx, a)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return results
}

func await(t *testing.T, s *Server, ok func(*Ledger) bool) {
	t.Helper()
	if err := s.Await(soon(t), ok); err != nil {
		t.Fatalf("%v\n%+v", err, s.Calls())
	}
}
