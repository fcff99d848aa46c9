package provider

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
)

// A wire is a provider made by hand: each connection is played by a function,
// down to the byte and the packet.
type wire struct {
	url string

	mu       sync.Mutex
	requests int // whole ones
}

// play starts a wire. nth counts the connections, from 1.
func play(t *testing.T, script func(p *peer, nth int)) *wire {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{url: "http://" + ln.Addr().String()}
	over := make(chan struct{})
	var players sync.WaitGroup
	players.Go(func() {
		for nth := 1; ; nth++ {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			p := &peer{Conn: conn, w: w, r: bufio.NewReader(conn)}
			finished := make(chan struct{})
			players.Go(func() {
				defer close(finished)
				script(p, nth)
				_ = conn.Close()
			})
			players.Go(func() { // a script that waits for the client is freed at the end
				select {
				case <-over:
					_ = conn.Close()
				case <-finished:
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		close(over)
		players.Wait()
	})
	return w
}

func (w *wire) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests
}

// A peer is a wire's end of one connection.
type peer struct {
	net.Conn
	w *wire
	r *bufio.Reader
}

// request reads a whole request, and returns nil if there was none.
func (p *peer) request() *http.Request {
	r, err := http.ReadRequest(p.r)
	if err != nil {
		return nil
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.requests++
	return r
}

func (p *peer) say(s string) { _, _ = io.WriteString(p.Conn, s) }

// reset closes the connection with an RST.
func (p *peer) reset() {
	_ = p.Conn.(*net.TCPConn).SetLinger(0)
	_ = p.Conn.Close()
}

// gone waits until the client has closed its end.
func (p *peer) gone() { _, _ = io.Copy(io.Discard, p.r) }
