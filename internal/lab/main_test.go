package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/notify"
	"notifylab/internal/servers/serverstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.Main(m)) }

// soon returns a context that ends only when something is wrong.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// commandTime is how long a command of the program's may take, its repetition included.
const commandTime = 2 * time.Second

// dial returns a client like the program's through a network that counts and
// misbehaves. It has patience: a Redis that stalls for a moment is not what a test is
// about.
func dial(t testing.TB) (Client, *network) {
	t.Helper()
	return dialWithin(t, 20*time.Second)
}

// dialWithin is dial for a command that may take so long, and its repetition the same.
func dialWithin(t testing.TB, most time.Duration) (Client, *network) {
	t.Helper()
	_, url := serverstest.URLs(t)
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	n := &network{seen: map[string]int{}, lose: map[string]int{}}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = most, most, most
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = 1, 1, true
	o.PoolSize = 100
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &conn{Conn: c, n: n}, err
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c, n
}

// place returns a namespace that is empty again when the test ends.
func place(t testing.TB, c Client) notify.Namespace {
	t.Helper()
	ns := notify.Namespace(serverstest.Namespace(t))
	t.Cleanup(func() {
		ctx := context.Background()
		keys, err := c.Keys(ctx, ns.Key("*")).Result()
		if err == nil && len(keys) > 0 {
			err = c.Del(ctx, keys...).Err()
		}
		if err != nil {
			t.Errorf("clean up %s: %v", ns, err)
		}
	})
	return ns
}

// A network is what lies between one client and Redis.
type network struct {
	mu   sync.Mutex
	seen map[string]int // commands that went out, by their names
	lose map[string]int // how many replies are lost: the connection breaks instead
	gone bool           // nothing comes back any more
	hold chan struct{}  // answers wait until it is closed
	held int            // answers that have waited
}

// A conn carries one command at a time, each in one write.
type conn struct {
	net.Conn
	n *network

	mu   sync.Mutex
	lost bool // the reply that comes next
}

func (c *conn) Write(b []byte) (int, error) {
	c.n.mu.Lock()
	for _, name := range []string{"hgetall", "hset", "hsetnx", "set", "xadd"} {
		if bytes.Contains(b, fmt.Appendf(nil, "\r\n$%d\r\n%s\r\n", len(name), name)) {
			c.n.seen[name]++
			if c.n.lose[name] > 0 {
				c.n.lose[name]--
				c.mu.Lock()
				c.lost = true
				c.mu.Unlock()
			}
			break
		}
	}
	c.n.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n.mu.Lock()
	gone, hold := c.n.gone, c.n.hold
	if hold != nil {
		c.n.held++
	}
	c.n.mu.Unlock()
	if hold != nil {
		<-hold
	}
	for gone && err == nil {
		n, err = c.Conn.Read(b) // until the client's deadline
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost && err == nil {
		_ = c.Conn.Close()
		return 0, io.EOF
	}
	return n, err
}

// losing makes the network lose the replies to the next n commands of that name.
func (n *network) losing(name string, count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lose[name] = count
}

// count returns how many commands of that name went out.
func (n *network) count(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen[name]
}

// blackhole lets nothing back any more, or again.
func (n *network) blackhole(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gone = on
}

// holding lets answers wait until release is called.
func (n *network) holding() (release func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	hold := make(chan struct{})
	n.hold = hold
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.hold = nil
		close(hold)
	}
}

// waiting says whether an answer waits.
func (n *network) waiting() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.held > 0
}
