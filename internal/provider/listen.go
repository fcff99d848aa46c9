package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds on what a client may take, against one that never finishes.
const (
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
	maxHeader  = 64 << 10 // bytes
)

// Running is a [Server] that can be called, until it is closed. The Server and
// its ledger outlive it, and can listen again: a provider that was away.
type Running struct {
	server *http.Server
	url    string
	life   *life
	served chan error
}

// Listen makes s reachable at addr, host:port; an empty one is a free port on
// 127.0.0.1. It can be called when Listen returns. The error wraps the
// system's, [syscall.EADDRINUSE] if the port is taken.
func (s *Server) Listen(addr string) (*Running, error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err // the rest of it repeats the address
		}
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	r := &Running{
		url:    "http://" + dialable(ln.Addr()),
		life:   &life{closing: make(chan struct{}), idle: make(chan struct{})},
		served: make(chan error, 1),
	}
	r.server = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { s.serve(w, req, r.life) }),
		ReadHeaderTimeout: headerTime,
		// No ReadTimeout: its passing would look like the client's going away
		// to a call that hangs.
		IdleTimeout:    idleTime,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       discard(), // it would print about clients that speak no HTTP
	}
	go func() {
		defer close(r.served)
		r.served <- r.server.Serve(ln)
	}()
	return r, nil
}

// URL returns where to send calls, without a slash at the end.
func (r *Running) URL() string { return r.url }

// Close ends it: calls that wait at a fault are cut off without an answer (and
// are not accepted, if they were not yet), the others are answered, until ctx
// ends; then every connection is closed. Closing again does nothing. The error
// says that ctx ended first, or that the listener had failed before.
func (r *Running) Close(ctx context.Context) error {
	// http.Server.Shutdown would wait up to five seconds for a connection that
	// a client opened and never used, which transports do.
	idle := r.life.end()
	var late error
	select {
	case <-idle:
	case <-ctx.Done():
		late = fmt.Errorf("close provider: calls still in hand: %w", context.Cause(ctx))
	}
	closed := r.server.Close()
	served := <-r.served // nil, too, if it was closed before
	if errors.Is(served, http.ErrServerClosed) {
		served = nil
	}
	return errors.Join(late, served, closed)
}

// dialable is a listener's address as a client can use it: one that stands for
// every interface is reached at the loopback.
func dialable(a net.Addr) string {
	t, ok := a.(*net.TCPAddr)
	if !ok || !t.IP.IsUnspecified() {
		return a.String()
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(t.Port))
}

// A life counts the calls in hand from when they were read until they are
// answered. The zero life never ends.
type life struct {
	closing chan struct{} // closed when it ends
	idle    chan struct{} // closed when it has ended and none is in hand

	mu   sync.Mutex
	n    int
	over bool
}

// enter returns false if the life has ended; else the caller must leave.
func (l *life) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.n++
	}
	return !l.over
}

func (l *life) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n--
	if l.over && l.n == 0 {
		close(l.idle)
	}
}

// end ends the life and returns a channel that is closed when no call is left.
func (l *life) end() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return l.idle
	}
	l.over = true
	close(l.closing)
	if l.n == 0 {
		close(l.idle)
	}
	return l.idle
}

func discard() *log.Logger { return log.New(io.Discard, "", 0) }
