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
// network does, let them go on and carry nothing, and lose what the server answers.
type proxy struct {
	url  string
	mute atomic.Bool // answers are lost

	to      string
	running sync.WaitGroup
	mu      sync.Mutex
	open    []net.Conn
	dead    *atomic.Bool // of those that are open now: they carry nothing
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
	p := &proxy{to: u.Host, dead: new(atomic.Bool)}
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
	}{{carrying{to, p.dead, new(atomic.Bool)}, from}, {carrying{from, p.dead, &p.mute}, to}} {
		p.running.Go(func() {
			_, _ = io.Copy(way.to, way.from)
			_ = from.Close()
			_ = to.Close()
		})
	}
}

// carrying is a way on which all is lost once dead or mute is set.
type carrying struct {
	to         io.Writer
	dead, mute *atomic.Bool
}

func (c carrying) Write(b []byte) (int, error) {
	if c.dead.Load() || c.mute.Load() {
		return len(b), nil
	}
	return c.to.Write(b)
}

// drop lets the connections that are open now carry nothing any more, in either
// direction: nobody is told.
func (p *proxy) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead.Store(true)
	p.dead = new(atomic.Bool)
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
