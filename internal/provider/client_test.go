package provider

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"testing"

	"notifylab/internal/notify"
)

func TestNewClient_says_what_it_wants_and_never_the_url(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"", "localhost:8080", "/push", "ftp://host", "http://", "http://user:secret@", "http://user:se/cret@host:80",
		"http://host:secret", "http://%zzsecret@host", "mailto:secret@host",
	} {
		_, err := NewClient(bad, ClientOptions{})
		if err == nil {
			t.Errorf("%q was taken", bad)
			continue
		}
		if got := err.Error(); !strings.Contains(got, "want http://") || strings.Contains(got, "secret") {
			t.Errorf("%q: %s", bad, got)
		}
	}
}

func TestSend_makes_the_request_that_providers_know(t *testing.T) {
	t.Parallel()
	type request struct{ method, uri, body, key, kind, user string }
	got := make(chan request, 2)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		name, password, _ := r.BasicAuth()
		got <- request{r.Method, r.RequestURI, string(body), r.Header.Get("Idempotency-Key"), r.Header.Get("Content-Type"), name + "/" + password}
	}))
	defer h.Close()
	base, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	base.User, base.Path, base.RawQuery = url.UserPassword("me", "p:w"), "/v1/", "tenant=a"
	c := client(t, base.String(), ClientOptions{})

	a := keyed("n-1", "7")
	a.Notification.Text = "<ö> \"&\"\n"
	want := request{"POST", "/v1/push?tenant=a", `{"id":"n-1","user":"7","text":"<ö> \"&\"\n"}`, "n-1:push:7", "application/json", "me/p:w"}
	if r := c.Send(soon(t), a); r != (notify.Result{}) {
		t.Fatalf("got %+v, want accepted", r)
	}
	if r := <-got; r != want {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}

	a.Key, a.Channel = "", notify.Email
	want.key, want.uri = "", "/v1/email?tenant=a"
	c.Send(soon(t), a)
	if r := <-got; r != want {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}
}

// A kept connection on which the second request is read and never answered is
// what makes net/http send a request again.
func TestSend_is_one_request_even_if_a_kept_connection_breaks(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*peer){
		"reset":  (*peer).reset,
		"closed": func(*peer) {},
	} {
		script := func(p *peer, nth int) {
			const ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
			for i := 1; p.request() != nil; i++ {
				if nth == 1 && i == 2 {
					end(p)
					return
				}
				p.say(ok)
			}
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := play(t, script)
			c := client(t, w.url, ClientOptions{})
			if r := c.Send(soon(t), keyed("n-1", "7")); r.Answer != notify.Accepted {
				t.Fatalf("first: %+v", r)
			}
			if r := c.Send(soon(t), keyed("n-2", "7")); r.Answer != notify.Unknown {
				t.Errorf("second: %+v, want unknown", r)
			}
			if n := w.count(); n != 2 {
				t.Errorf("%d requests, want 2", n)
			}
		})
		t.Run(name+", and this test would see a second", func(t *testing.T) {
			t.Parallel()
			w := play(t, script)
			c := client(t, w.url, ClientOptions{})
			for range 2 {
				r := c.request(soon(t), keyed("n", "7"))
				r.GetBody = func() (io.ReadCloser, error) {
					return io.NopCloser(strings.NewReader(`{"id":"n","user":"7","text":"hello"}`)), nil
				}
				res, err := c.transport.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
			}
			if n := w.count(); n != 3 {
				t.Errorf("%d requests, want 3: with a GetBody the second is sent twice", n)
			}
		})
	}
}

func TestSend_keeps_its_connections_and_bounds_them(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	open, most, all := 0, 0, 0
	s := New(Options{})
	h := httptest.NewUnstartedServer(s)
	h.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		switch state {
		case http.StateNew:
			open, all = open+1, all+1
			most = max(most, open)
		case http.StateClosed:
			open--
		}
	}
	h.Start()
	defer h.Close()
	c := client(t, h.URL, ClientOptions{MaxConns: 3})
	var senders sync.WaitGroup
	for range 12 {
		senders.Go(func() {
			for range 20 {
				// Refusals have bodies to be drained, too.
				if r := c.Send(soon(t), attempt("n", badUser)); r.Answer != notify.RefusedForNow {
					t.Errorf("got %+v", r)
				}
			}
		})
	}
	senders.Wait()
	mu.Lock()
	defer mu.Unlock()
	if most > 3 || all > 3 {
		t.Errorf("%d connections in all and %d at once, want at most 3", all, most)
	}
}

func TestSend_calls_the_trace_that_is_in_its_context(t *testing.T) {
	t.Parallel()
	s, c := pair(t, Faults{})
	accepted := -1
	ctx := httptrace.WithClientTrace(soon(t), &httptrace.ClientTrace{
		GotFirstResponseByte: func() { accepted = s.Accepted("n", notify.Push) },
	})
	if r := c.Send(ctx, attempt("n", "7")); r.Answer != notify.Accepted {
		t.Fatalf("got %+v", r)
	}
	if accepted != 1 {
		t.Errorf("at the answer's first byte %d accepted, want 1", accepted)
	}
}

func BenchmarkSend(b *testing.B) {
	r, err := New(Options{}).Listen("")
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close(b.Context())
	c, err := NewClient(r.URL(), ClientOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.SetParallelism(DefaultMaxConns / 2)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if r := c.Send(b.Context(), keyed("n", "7")); r.Answer != notify.Accepted {
				b.Errorf("got %+v", r)
			}
		}
	})
}
