package scenario

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"

	"notifylab/internal/broker"
)

// A cable is a way to RabbitMQ that can be cut: whoever is on it loses the connection
// and lives on.
type cable struct {
	url     string // to be used in place of the server's
	far     string
	ln      net.Listener
	running sync.WaitGroup

	mu   sync.Mutex
	ends []net.Conn // of both sides, two for each connection
}

// layCable lays one to the server at rawURL, which must not use TLS: its certificate
// is for another name.
func layCable(rawURL string) (*cable, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme != "amqp" {
		return nil, fmt.Errorf("a connection that is to be cut can't use TLS: there must be an amqp:// URL") // which may hold a password
	}
	c := &cable{}
	if c.far, err = broker.Addr(rawURL); err != nil {
		return nil, err
	}
	if c.ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("lay a cable: %w", err)
	}
	u.Host = c.ln.Addr().String()
	c.url = u.String()
	c.running.Go(c.accept)
	return c, nil
}

func (c *cable) accept() {
	for {
		near, err := c.ln.Accept()
		if err != nil {
			return // closed
		}
		far, err := net.Dial("tcp", c.far)
		if err != nil {
			near.Close()
			continue
		}
		c.mu.Lock()
		c.ends = append(c.ends, near, far)
		c.mu.Unlock()
		for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
			c.running.Go(func() {
				_, _ = io.Copy(way[0], way[1]) // its end is the other's
				way[0].Close()
				way[1].Close()
			})
		}
	}
}

// cut ends the connections there are, without a word, and returns how many. New ones
// can be made.
func (c *cable) cut() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.ends) / 2
	for _, end := range c.ends {
		end.Close()
	}
	c.ends = nil
	return n
}

// Close cuts it for good.
func (c *cable) Close() {
	c.ln.Close()
	c.cut()
	c.running.Wait()
}
