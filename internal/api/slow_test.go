package api

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"notifylab/internal/notify"
)

// An answer that takes longer than a request may take to arrive is not cut short.
func TestSlowAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.park(note("a"))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	r.ok(err)
	s := r.server.HTTPServer()
	s.ReadTimeout = 100 * time.Millisecond
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	defer func() { r.ok(s.Shutdown(soon(t))); <-served }()
	turn, err := r.dial().DeadLetters(soon(t), r.names(), notify.Push)
	r.ok(err)
	r.url = "http://" + ln.Addr().String()
	answers := make(chan reply, 2)
	for _, request := range []string{"GET " + dlq, "POST " + dlq + "/replay"} {
		method, path, _ := strings.Cut(request, " ")
		go func() {
			got, err := r.try(method, path, "")
			if err != nil {
				t.Error(err)
			}
			answers <- got
		}()
	}
	select {
	case got := <-answers:
		t.Errorf("%d %s", got.status, got.text)
	case <-time.After(time.Second): // ten times what it takes to be cut short
	}
	r.ok(turn.Close())
	for range 2 {
		if got := <-answers; got.status != 200 {
			t.Errorf("%d %s", got.status, got.text)
		}
	}
}

// slack is what a busy machine may add.
const slack = 13 * time.Second

// A client that trickles its headers is cut off; one that trickles its body is
// told so. (leodip/goiabada#205)
func TestSlowClients(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	address := strings.TrimPrefix(r.url, "http://")
	trickle := func(head string) (string, time.Duration) {
		c, err := net.Dial("tcp", address)
		r.ok(err)
		defer c.Close()
		r.ok(c.SetDeadline(time.Now().Add(limit)))
		began := time.Now()
		_, err = io.WriteString(c, head)
		r.ok(err)
		answer, err := io.ReadAll(c)
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			t.Errorf("%q is still open", head)
		}
		return string(answer), time.Since(began)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if answer, took := trickle("POST /api/notify HTTP/1.1\r\nHost: localhost\r\nX-Slow: "); strings.Contains(answer, " 20") || took > headerTime+slack {
			t.Errorf("slow headers: %q after %v", answer, took)
		}
	})
	wg.Go(func() {
		answer, took := trickle("POST /api/notify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{")
		if !strings.HasPrefix(answer, "HTTP/1.1 400") || took > bodyTime+slack {
			t.Errorf("slow body: %q after %v", answer, took)
		}
	})
	wg.Wait()
}
