package provider

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
)

// errSealed is what writes get on a connection that was found untouched.
var errSealed = errors.New("connection sealed")

// A countedConn knows how much was written to it, and can be sealed: a look
// that finds nothing written makes sure that nothing ever is, in one step.
// Without the seal "nothing was written" could be over by the time it is used,
// since a transport writes in a goroutine of its own.
type countedConn struct {
	net.Conn

	mu      sync.Mutex
	written int64 // bytes that the connection below took
	writing int   // writes under way: their bytes may be out already
	sealed  bool
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	if c.sealed {
		c.mu.Unlock()
		return 0, errSealed
	}
	c.writing++
	c.mu.Unlock() // a write can block, and a look must not

	n, err := c.Conn.Write(p)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing--
	c.written += int64(n)
	return n, err
}

func (c *countedConn) mark() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written
}

// seal returns true if nothing was written since the mark, and nothing will be.
func (c *countedConn) seal(mark int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing > 0 || c.written != mark {
		return false
	}
	c.sealed = true
	return true
}

// A track follows one attempt from its connection on. The zero track has none.
type track struct {
	got  bool
	conn *countedConn // nil although got: one that we did not make
	mark int64
}

// begin notes how far the connection is that an attempt was just given.
func (t *track) begin(conn net.Conn) {
	t.got = true
	// Through a proxy the transport puts TLS on top of our connection. (What
	// TLS says for itself, such as good-bye, counts there. It can only turn
	// not sent into unknown, never the other way.)
	if over, ok := conn.(*tls.Conn); ok {
		conn = over.NetConn()
	}
	if t.conn, _ = conn.(*countedConn); t.conn != nil {
		t.mark = t.conn.mark()
	}
}

// untouched returns true if no byte of the attempt was written, and sees to it
// that none will be.
func (t *track) untouched() bool {
	return !t.got || t.conn != nil && t.conn.seal(t.mark)
}
