package main

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// relay passes what clients of ln say on to a server. answers does so with what the
// server says, and a connection ends when it returns.
func relay(t *testing.T, ln net.Listener, server string, answers func(client, server net.Conn)) {
	t.Helper()
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer client.Close()
				server, err := net.Dial("tcp", server)
				if err != nil {
					return
				}
				all.Go(func() { answers(client, server); client.Close() })
				_, _ = io.Copy(server, client) // with TLS the first read is the handshake
				server.Close()
			})
		}
	})
	t.Cleanup(func() { ln.Close(); all.Wait() })
}

// relayed returns the URL of a broker whose answers go through answers.
func relayed(t *testing.T, amqpURL string, answers func(client, server net.Conn)) string {
	t.Helper()
	u, err := url.Parse(amqpURL)
	do(t, "parse", err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	do(t, "listen", err)
	relay(t, ln, u.Host, answers)
	u.Host = ln.Addr().String()
	return u.String()
}

// mutedAfter returns the URL of a broker of which clients hear nothing any more once
// it has said last.
func mutedAfter(t *testing.T, amqpURL, last string) string {
	t.Helper()
	return relayed(t, amqpURL, func(client, server net.Conn) {
		var said []byte
		buffer := make([]byte, 1<<16)
		for {
			n, err := server.Read(buffer)
			if err != nil {
				return
			}
			if bytes.Contains(said, []byte(last)) {
				continue
			}
			said = append(said, buffer[:n]...)
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	})
}

// A broker whose disk stands still lets clients in, but makes no queue and confirms
// nothing (measured: a file system frozen for 7 s). What is said then is who does not
// answer and for how long it was waited.
func TestBroker_falls_silent(t *testing.T) {
	t.Parallel()
	shared := newCorner(t)
	const openOK, selectOK = "\x00\x0a\x00\x29", "\x00\x55\x00\x0b" // class and method: the handshake is done; confirms are on
	for name, tt := range map[string]struct {
		last, args string
		status     int
		want       string // the first line
	}{
		"produce, before it has queues": {openOK, "produce --publish-timeout 300ms", exitUnavailable,
			"notifylab: RabbitMQ does not answer at HOST: no answer within 300ms"},
		"supervise, before it has queues": {openOK, "supervise push=1 -- --publish-timeout 300ms", exitUnavailable,
			"notifylab: RabbitMQ does not answer at HOST: no answer within 300ms"},
		"a worker, before it has queues": {openOK, "worker push --publish-timeout 300ms", exitUnavailable,
			"notifylab: RabbitMQ does not answer at HOST: no answer within 300ms"},
		"produce, before the first confirm": {selectOK, "produce --declare=false --count 10000 --publish-timeout 5s", exitFinding,
			"notifylab: stopped after 2000 of 10000 events: 4000 messages in flight: no answer within 5s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			silent := mutedAfter(t, shared.amqp, tt.last)
			c := cornerAt(t, shared.amqp, shared.redis)
			if strings.Contains(tt.args, "--declare=false") {
				c.run("produce").wantStatus(exitOK) // which makes them
			}
			c.amqp = silent
			r := c.run(strings.Fields(tt.args)...)
			r.wantStatus(tt.status)
			u, err := url.Parse(silent)
			do(t, "parse", err)
			if want := strings.ReplaceAll(tt.want, "HOST", u.Host); len(r.complaints()) == 0 || r.complaints()[0] != want {
				t.Errorf("%q, want %s", r.errors(), want)
			}
		})
	}
}
