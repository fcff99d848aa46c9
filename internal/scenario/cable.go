package scenario

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"

	"notifylab/internal/broker"
)

// A cable is a way to RabbitMQ that can be cut: whoever is on it loses the connection
// and lives on.
type cable struct {
	url     string   // to be used in place of the server's
	far     []string // its nodes, in order
	ln      net.Listener
	running sync.WaitGroup

	mu   sync.Mutex
	ends []net.Conn // of both sides, two for each connection
}

// layCable lays one to the first node that answers of those that rawURL names, none
// of which may use TLS: its certificate is for another name. All must take the user
// and password of the first.
func layCable(rawURL string) (*cable, error) {
	nodes, err := broker.Nodes(rawURL)
	if err != nil {
		return nil, err
	}
	c := &cable{}
	for _, node := range nodes {
		if !strings.HasPrefix(node, "amqp://") {
			return nil, errors.New("a connection that is to be cut can't use TLS: there must be an amqp:// URL") // which may hold a password
		}
		addr, err := broker.Addr(node)
		if err != nil {
			return nil, err
		}
		c.far = append(c.far, addr)
	}
	u, err := url.Parse(nodes[0])
	if err != nil {
		return nil, broker.ErrURL
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
		far := c.dial()
		if far == nil {
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

// dial connects to the first node that answers; nil: none does.
func (c *cable) dial() net.Conn {
	for _, addr := range c.far {
		if far, err := net.Dial("tcp", addr); err == nil {
			return far
		}
	}
	return nil
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
