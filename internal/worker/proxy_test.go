package worker_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// A proxy stands between a worker and a server. It can cut the connections as a
// network does, and lose what the server answers.
type proxy struct {
	url  string
	mute atomic.Bool // answers are lost

	to      string
	running sync.WaitGroup
	mu      sync.Mutex
	open    []net.Conn
}

// newProxy returns a proxy to the server at rawURL.
func newProxy(t *testing.T, rawURL string) *proxy {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{to: u.Host}
	u.Host = l.Addr().String()
	p.url = u.String()
	p.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.join(c)
		}
	})
	t.Cleanup(func() { _ = l.Close(); p.cut(); p.running.Wait() })
	return p
}

func (p *proxy) join(from net.Conn) {
	to, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = from.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, from, to)
	for _, way := range []struct {
		to   io.Writer
		from io.Reader
	}{{to, from}, {audible{p, from}, to}} {
		p.running.Go(func() {
			_, _ = io.Copy(way.to, way.from)
			_ = from.Close()
			_ = to.Close()
		})
	}
}

// audible is the way to the worker.
type audible struct {
	p  *proxy
	to io.Writer
}

func (a audible) Write(b []byte) (int, error) {
	if a.p.mute.Load() {
		return len(b), nil
	}
	return a.to.Write(b)
}

// cut closes all connections that are open now.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		_ = c.Close()
	}
	p.open = nil
}
