package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Config is how to reach the broker.
type Config struct {
	URL       string        // of one node, or of several, see [Nodes]
	Name      string        // shown by the broker's tools: who is it?
	Heartbeat time.Duration // at least 1 s; a dead link is noticed within three
	Timeout   time.Duration // for connecting, handshake included
}

// Conn is one connection, without recovery: when it ends it has ended, and
// whoever needs another one says what becomes of the deliveries in hand. The
// client library can reconnect by itself; that would hide the end of a session,
// so it stays off.
type Conn struct {
	amqp    *amqp.Connection
	socket  net.Conn
	url     string // of the node
	addr    string
	over    chan struct{}  // closed when it has ended
	running sync.WaitGroup // goroutines that end with the connection
}

// dial connects to one node; see [Dial].
func dial(ctx context.Context, cfg Config) (c *Conn, err error) {
	addr := addrOf(cfg.URL)
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.Timeout, fmt.Errorf("timed out after %v", cfg.Timeout))
	defer cancel()
	c = &Conn{url: cfg.URL, addr: addr, over: make(chan struct{})}
	stop := func() bool { return true }
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName(cfg.Name)
	c.amqp, err = amqp.DialConfig(cfg.URL, amqp.Config{
		SASL:       authentication(cfg.URL, properties),
		Heartbeat:  cfg.Heartbeat,
		Properties: properties,
		Dial: func(network, addr string) (net.Conn, error) {
			plain, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			// The handshake must not outlive ctx either. No deadline on the
			// socket: it could pass a moment before ctx ends, and the library
			// reports a handshake cut short as a wrong password.
			socket := newSocket(plain)
			c.socket = socket
			c.running.Go(socket.write)
			stop = context.AfterFunc(ctx, c.cut)
			return socket, nil
		},
	})
	if !stop() || err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.cut() // the library leaves it open after some errors
		return nil, dialError(addr, err)
	}
	c.guard()
	return c, nil
}

func dialError(addr string, err error) error {
	var e *amqp.Error
	var untrusted *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &untrusted), errors.As(err, &plain):
		return fmt.Errorf("RabbitMQ at %s: %w: %w", addr, ErrTLS, rootCause(err))
	case errors.Is(err, amqp.ErrVhost): // the library's guess
		err = errors.New("connection lost in the handshake")
	case errors.Is(err, amqp.ErrCredentials), errors.As(err, &e) && e.Server && e.Code == amqp.AccessRefused:
		return fmt.Errorf("RabbitMQ at %s: %w", addr, ErrAccessRefused)
	case errors.As(err, &e) && e.Server && e.Code == amqp.NotAllowed:
		return fmt.Errorf("RabbitMQ at %s: %w: %s", addr, ErrNoVhost, strings.TrimPrefix(e.Reason, "NOT_ALLOWED - "))
	}
	return &UnreachableError{Addr: addr, Err: err}
}

// guard closes the socket as soon as the library has given the connection up.
// The library does so itself, but only after its channels, and a channel is not
// closed while a write on it is blocked: without this, a connection to a broker
// that stands still never ends once the socket is full.
func (c *Conn) guard() {
	closed := c.amqp.NotifyClose(make(chan *amqp.Error, 1))
	c.running.Go(func() {
		<-closed
		close(c.over)
		c.cut()
	})
}

// cut ends the connection without a word.
func (c *Conn) cut() {
	if c.socket != nil {
		c.socket.Close()
	}
}

// lost turns the error of a call on a connection that has ended into an
// [UnreachableError].
func (c *Conn) lost(err error) error {
	var already *UnreachableError
	if err == nil || !c.amqp.IsClosed() || errors.As(err, &already) {
		return err
	}
	return &UnreachableError{Addr: c.addr, Err: err}
}

// Over is closed when the connection has ended.
func (c *Conn) Over() <-chan struct{} { return c.over }

// Err is an [UnreachableError] when the connection has ended, nil before.
func (c *Conn) Err() error {
	if !c.amqp.IsClosed() {
		return nil
	}
	return c.lost(errors.New("connection lost"))
}

// URL is that of the node to which it is connected. It may hold a password: it is not
// to be shown.
func (c *Conn) URL() string { return c.url }

// Addr returns host:port of the node that it is a connection to.
func (c *Conn) Addr() string { return c.addr }

// Server returns the broker's name and version as it gives them: RabbitMQ
// 3.10.8.
func (c *Conn) Server() string {
	product, _ := c.amqp.Properties["product"].(string)
	version, _ := c.amqp.Properties["version"].(string)
	return product + " " + version
}

// closeLimit bounds the farewell.
const closeLimit = 2 * time.Second

// Close ends the connection, within two seconds: what was not acked goes back
// to its queue. After an error the broker may not have heard the farewell, but
// the connection has ended all the same. All that used it has ended, too.
func (c *Conn) Close() error {
	// Not the library's CloseDeadline: its deadline moves with each heartbeat,
	// and a broker that blocks us (an alarm) sends those but reads nothing.
	limit := time.AfterFunc(closeLimit, c.cut)
	defer limit.Stop()
	err := c.amqp.Close()
	c.running.Wait()
	if errors.Is(err, amqp.ErrClosed) {
		return nil
	}
	return err
}

// within calls do, which waits for the broker. If ctx ends first it returns an
// [UnreachableError]; do then goes on by itself, until the connection ends at
// the latest, and its result is dropped.
func within[T any](ctx context.Context, c *Conn, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := do()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, c.lost(r.err)
	case <-ctx.Done():
		var none T
		return none, &UnreachableError{Addr: c.addr, Err: context.Cause(ctx)}
	}
}
