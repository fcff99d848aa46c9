package provider

import (
	"context"
	"crypto/tls"
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

func TestSend_over_TLS(t *testing.T) {
	t.Parallel()
	secure := func(t *testing.T, h http.Handler) (*httptest.Server, *tls.Config) {
		srv := httptest.NewUnstartedServer(h)
		srv.Config.ErrorLog = discard() // about a client that does not trust it
		srv.EnableHTTP2 = true          // offered, and not to be taken
		srv.StartTLS()
		t.Cleanup(srv.Close)
		return srv, srv.Client().Transport.(*http.Transport).TLSClientConfig
	}
	abort := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	})
	closeHere := func(ctx context.Context) context.Context {
		return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn: func(i httptrace.GotConnInfo) { _ = i.Conn.Close() },
		})
	}
	for _, how := range []string{"direct", "through a proxy"} {
		dialThrough := func(t *testing.T, c *Client) {
			if how != "direct" {
				proxy := connectProxy(t)
				c.transport.Proxy = func(*http.Request) (*url.URL, error) { return proxy, nil }
			}
		}
		t.Run(how+", accepted", func(t *testing.T) {
			t.Parallel()
			s := New(Options{})
			srv, config := secure(t, s)
			c := client(t, srv.URL, ClientOptions{TLS: config})
			dialThrough(t, c)
			for range 3 {
				if r := c.Send(soon(t), keyed("n", "7")); r.Answer != notify.Accepted {
					t.Errorf("got %+v", r)
				}
			}
			if s.Accepted("n", notify.Push) != 1 || s.Deduplicated("n", notify.Push) != 2 {
				t.Errorf("ledger: %+v", s.Calls())
			}
		})
		t.Run(how+", cut after the request is unknown", func(t *testing.T) {
			t.Parallel()
			srv, config := secure(t, abort)
			c := client(t, srv.URL, ClientOptions{TLS: config})
			dialThrough(t, c)
			if r := c.Send(soon(t), keyed("n", "7")); r.Answer != notify.Unknown {
				t.Errorf("got %+v, want unknown", r)
			}
		})
		t.Run(how+", a connection broken before the first byte", func(t *testing.T) {
			t.Parallel()
			s := New(Options{})
			srv, config := secure(t, s)
			c := client(t, srv.URL, ClientOptions{TLS: config})
			dialThrough(t, c)
			r := c.Send(closeHere(soon(t)), attempt("n", "7"))
			// Through a proxy the connection is counted below TLS, whose
			// good-bye is a byte like any other.
			if r.Answer != notify.NotSent && (how == "direct" || r.Answer != notify.Unknown) {
				t.Errorf("got %+v, want not sent", r)
			}
			if s.Len() != 0 {
				t.Errorf("ledger: %+v", s.Calls())
			}
		})
		t.Run(how+", a stranger's certificate is not sent", func(t *testing.T) {
			t.Parallel()
			s := New(Options{})
			srv, _ := secure(t, s)
			c := client(t, srv.URL, ClientOptions{})
			dialThrough(t, c)
			if r := c.Send(soon(t), attempt("n", "7")); r.Answer != notify.NotSent || s.Len() != 0 {
				t.Errorf("got %+v, want not sent", r)
			}
		})
	}
	t.Run("no TLS at the other end is not sent", func(t *testing.T) {
		t.Parallel()
		w := play(t, func(p *peer, _ int) { p.say("hello\r\n") })
		c := client(t, strings.Replace(w.url, "http:", "https:", 1), ClientOptions{})
		if r := c.Send(soon(t), attempt("n", "7")); r.Answer != notify.NotSent {
			t.Errorf("got %+v, want not sent", r)
		}
	})
}

// connectProxy starts a proxy that knows CONNECT alone.
func connectProxy(t *testing.T) *url.URL {
	t.Helper()
	w := play(t, func(p *peer, _ int) {
		r := p.request()
		if r == nil || r.Method != http.MethodConnect {
			return
		}
		target, err := net.Dial("tcp", r.Host)
		if err != nil {
			return
		}
		p.say("HTTP/1.1 200 Connected\r\n\r\n")
		var back sync.WaitGroup
		back.Go(func() {
			_, _ = io.Copy(p.Conn, target)
			_ = p.Conn.Close()
		})
		_, _ = io.Copy(target, p.r)
		_ = target.Close()
		back.Wait()
	})
	u, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
