package provider

import (
	"context"
	"fmt"
	"net"
	"net/http/httptrace"
	"strings"
	"testing"

	"notifylab/internal/notify"
)

func TestSend_a_status_decides(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status int
		want   notify.Answer
	}{
		{101, notify.Unknown},
		{200, notify.Accepted}, {201, notify.Accepted}, {202, notify.Accepted}, {204, notify.Accepted}, {299, notify.Accepted},
		{300, notify.RefusedForNow}, {301, notify.RefusedForNow}, {302, notify.RefusedForNow}, {304, notify.RefusedForNow},
		{307, notify.RefusedForNow}, {308, notify.RefusedForNow},
		{400, notify.RefusedForNow}, {401, notify.RefusedForNow}, {404, notify.RefusedForNow}, {408, notify.RefusedForNow},
		{409, notify.RefusedForNow}, {410, notify.RefusedForGood}, {429, notify.RefusedForNow}, {499, notify.RefusedForNow},
		{500, notify.Unknown}, {501, notify.Unknown}, {502, notify.Unknown}, {503, notify.RefusedForNow}, {504, notify.Unknown},
		{599, notify.Unknown}, {600, notify.Unknown}, {999, notify.Unknown},
	} {
		t.Run(fmt.Sprint(tc.status), func(t *testing.T) {
			t.Parallel()
			w := play(t, func(p *peer, _ int) {
				p.request()
				// A Location that leads nowhere: were it followed, or only
				// read, the result would be another.
				p.say(fmt.Sprintf("HTTP/1.1 %d X\r\nLocation: ::no url\r\nConnection: close\r\n", tc.status))
				if tc.status == 204 || tc.status == 304 || tc.status == 101 {
					p.say("\r\n")
					if tc.status == 101 {
						p.gone()
					}
					return
				}
				p.say("Content-Length: 6\r\n\r\nsorry\n")
			})
			got := client(t, w.url, ClientOptions{}).Send(soon(t), keyed("n", "7"))
			if got.Answer != tc.want {
				t.Errorf("got %+v, want %s", got, tc.want)
			}
			if prefix := fmt.Sprint(tc.status); (got.Reason != "") != (tc.want != notify.Accepted) ||
				got.Reason != "" && !strings.HasPrefix(got.Reason, prefix) {
				t.Errorf("reason %q: want one that starts with the status, none if accepted", got.Reason)
			}
			if n := w.count(); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

func TestSend_without_a_whole_answer(t *testing.T) {
	t.Parallel()
	const okay = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
	for _, tc := range []struct {
		name   string
		script func(p *peer)
		want   notify.Result
	}{
		{"reset after the request was read", func(p *peer) { p.request(); p.reset() },
			notify.Result{Answer: notify.Unknown, Reason: "no answer, read: connection reset by peer"}},
		{"closed after the request was read", func(p *peer) { p.request() },
			notify.Result{Answer: notify.Unknown, Reason: "no answer, connection closed"}},
		{"closed after half the request was read", func(p *peer) { _, _ = p.Read(make([]byte, 8)); p.reset() },
			notify.Result{Answer: notify.Unknown, Reason: "no answer, read: connection reset by peer"}},
		{"cut in the status line", func(p *peer) { p.request(); p.say("HTTP/1.1 20") },
			notify.Result{Answer: notify.Unknown, Reason: `no answer, malformed HTTP status code "20"`}},
		{"cut in the header", func(p *peer) { p.request(); p.say("HTTP/1.1 200 OK\r\nContent-Le") },
			notify.Result{Answer: notify.Unknown}},
		{"cut after an interim answer", func(p *peer) { p.request(); p.say("HTTP/1.1 103 Early Hints\r\n\r\n") },
			notify.Result{Answer: notify.Unknown, Reason: "no answer, connection closed"}},
		{"no HTTP", func(p *peer) { p.request(); p.say("220 mail.example ESMTP\r\n") },
			notify.Result{Answer: notify.Unknown}},
		{"cut in the body of an acceptance", func(p *peer) { p.request(); p.say(okay + "accep") },
			notify.Result{Answer: notify.Accepted}},
		{"reset in the body of an acceptance", func(p *peer) { p.request(); p.say(okay + "accep"); p.reset() },
			notify.Result{Answer: notify.Accepted}},
		{"an acceptance without an end", func(p *peer) { p.request(); p.say(okay + "accep"); p.gone() },
			notify.Result{Answer: notify.Accepted}},
		{"cut in the body of a refusal", func(p *peer) {
			p.request()
			p.say("HTTP/1.1 400 Bad Request\r\nContent-Length: 100\r\n\r\nno su")
		}, notify.Result{Answer: notify.RefusedForNow, Reason: "400 no su"}},
		{"interim answers before an acceptance", func(p *peer) {
			p.request()
			p.say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}, notify.Result{Answer: notify.Accepted}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := play(t, func(p *peer, _ int) { tc.script(p) })
			got := client(t, w.url, ClientOptions{}).Send(soon(t), keyed("n", "7"))
			// What a reset says depends on whether the status was read before
			// it came; where it is read, and where not, is what the rows fix.
			if got.Answer != tc.want.Answer && !(strings.HasPrefix(tc.name, "reset in the body") && got.Answer == notify.Unknown) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if tc.want.Reason != "" && got.Reason != tc.want.Reason && !strings.Contains(got.Reason, "broken pipe") {
				t.Errorf("reason %q, want %q", got.Reason, tc.want.Reason)
			}
			if w.count() > 1 {
				t.Errorf("%d requests, want no more than one", w.count())
			}
		})
	}
}

func TestSend_that_is_given_up(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		cause  error
		reason string
	}{
		{"cancelled", context.Canceled, "no answer, cancelled"},
		{"timed out", context.DeadlineExceeded, "no answer within "},
	} {
		t.Run(tc.name+" while the provider hangs is unknown", func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(soon(t))
			w := play(t, func(p *peer, _ int) { p.request(); cancel(tc.cause); p.gone() })
			got := client(t, w.url, ClientOptions{}).Send(ctx, attempt("n", "7"))
			if got.Answer != notify.Unknown || !strings.HasPrefix(got.Reason, tc.reason) {
				t.Errorf("got %+v, want unknown, %s", got, tc.reason)
			}
		})
	}
	t.Run("before it began is not sent", func(t *testing.T) {
		t.Parallel()
		w := play(t, func(p *peer, _ int) { p.request() })
		ctx, cancel := context.WithCancel(soon(t))
		cancel()
		got := client(t, w.url, ClientOptions{}).Send(ctx, attempt("n", "7"))
		if want := (notify.Result{Answer: notify.NotSent, Reason: "nothing sent, cancelled"}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if w.count() != 0 {
			t.Errorf("%d requests, want none", w.count())
		}
	})
	t.Run("while it waits for a connection is not sent", func(t *testing.T) {
		t.Parallel()
		busy := make(chan struct{})
		w := play(t, func(p *peer, _ int) { p.request(); close(busy); p.gone() })
		c := client(t, w.url, ClientOptions{MaxConns: 1})
		sendAside(t, soon(t), c, attempt("first", "7"))
		<-busy
		ctx, cancel := context.WithCancel(soon(t))
		got := c.Send(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GetConn: func(string) { cancel() },
		}), attempt("second", "7"))
		if got.Answer != notify.NotSent || w.count() != 1 {
			t.Errorf("got %+v and %d requests, want not sent and the first request", got, w.count())
		}
	})
	t.Run("at any moment is not sent only if the provider never saw it", func(t *testing.T) {
		t.Parallel()
		answers := map[notify.Answer]int{}
		for range 200 {
			ctx, cancel := context.WithCancel(soon(t))
			read := make(chan bool, 1)
			w := play(t, func(p *peer, _ int) { _, err := p.r.ReadByte(); read <- err == nil })
			got := client(t, w.url, ClientOptions{}).Send(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
				GotConn: func(httptrace.GotConnInfo) { go cancel() }, // races with the writing
			}), attempt("n", "7"))
			cancel()
			answers[got.Answer]++
			if saw := <-read; got.Answer == notify.NotSent && saw {
				t.Fatalf("got %+v, and the provider read of it", got)
			}
		}
		t.Log(answers)
	})
}

func TestSend_to_nobody_is_not_sent(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	got := client(t, "http://someone:secret@"+addr, ClientOptions{}).Send(soon(t), attempt("n", "7"))
	want := notify.Result{Answer: notify.NotSent, Reason: "nothing sent, dial tcp " + addr + ": connect: connection refused"}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestSend_on_a_connection_that_breaks_before_the_first_byte_is_not_sent(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(conn net.Conn, reset chan<- struct{}){
		"closed here": func(conn net.Conn, _ chan<- struct{}) { _ = conn.Close() },
		"reset by the provider": func(conn net.Conn, reset chan<- struct{}) {
			close(reset)
			_, _ = conn.Read(make([]byte, 1)) // returns when the reset is here
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reset := make(chan struct{})
			w := play(t, func(p *peer, _ int) {
				select {
				case <-reset:
				case <-t.Context().Done():
				}
				p.reset()
			})
			ctx := httptrace.WithClientTrace(soon(t), &httptrace.ClientTrace{
				GotConn: func(i httptrace.GotConnInfo) { breakIt(i.Conn, reset) },
			})
			got := client(t, w.url, ClientOptions{}).Send(ctx, keyed("n", "7"))
			if got.Answer != notify.NotSent || !strings.HasPrefix(got.Reason, "nothing sent, ") {
				t.Errorf("got %+v, want not sent", got)
			}
			if w.count() != 0 {
				t.Errorf("%d requests, want none", w.count())
			}
		})
	}
}

func TestSend_a_reason_is_one_short_line(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, body, want string }{
		{"the first line", "invalid device token\nand more", "400 invalid device token"},
		{"the first that says something", "\r\n \r\n  no such user \r\n", "400 no such user"},
		{"none", "", "400 bad request"},
		{"control characters", "a\x1b[31mb\x00c\td", "400 a [31mb c d"},
		{"no UTF-8", "a\xff\xfeb", "400 a\uFFFDb"},
		{"long", strings.Repeat("ä", 5000), "400 " + strings.Repeat("ä", maxReason-4) + "…"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := answered(400, []byte(tc.body)); got.Reason != tc.want {
				t.Errorf("got  %q\nwant %q", got.Reason, tc.want)
			}
		})
	}
}
