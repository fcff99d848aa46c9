package provider

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

func TestServer_answers_what_is_no_notification(t *testing.T) {
	t.Parallel()
	const good = `{"id":"n","user":"7","text":"hello"}`
	for _, tc := range []struct {
		name, method, path, body string
		status                   int
		says                     string
	}{
		{"an unknown channel", "POST", "/sms", good, 404, `no channel "sms": there are push, email`},
		{"no channel", "POST", "/", good, 404, "there are push, email"},
		{"more than a channel", "POST", "/push/x", good, 404, "there are push, email"},
		{"an unknown channel, whatever the method", "GET", "/sms", "", 404, "there are push, email"},
		{"not POST", "GET", "/push", "", 405, "only POST here"},
		{"PUT", "PUT", "/email", good, 405, "only POST here"},
		{"not GET", "POST", "/ledger", good, 405, "only GET here"},
		{"nothing", "POST", "/push", "", 400, "malformed"},
		{"no JSON", "POST", "/push", "id=n", 400, "malformed"},
		{"a field short", "POST", "/push", `{"id":"n","text":"hello"}`, 400, "no user"},
		{"a bad id", "POST", "/push", `{"id":"a:b","user":"7","text":"hello"}`, 400, "colon"},
		{"too long a text", "POST", "/push", `{"id":"n","user":"7","text":"` + strings.Repeat("x", notify.MaxText+1) + `"}`, 400, "at most 16384"},
		{"no end of it", "POST", "/push", strings.Repeat(" ", maxBody+1), 413, "more than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, w := New(Options{}), httptest.NewRecorder()
			r := httptest.NewRequest(tc.method, tc.path, strings.NewReader(tc.body))
			r.Header.Set("Content-Type", "application/json")
			s.ServeHTTP(w, r)
			if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.says) {
				t.Errorf("got %d %q, want %d …%s…", w.Code, w.Body, tc.status, tc.says)
			}
			if allow := w.Header().Get("Allow"); (tc.status == 405) != (allow != "") {
				t.Errorf("Allow: %q", allow)
			}
			if s.Len() != 0 {
				t.Errorf("ledger: %+v", s.Calls())
			}
		})
	}
}

// A page that a browser shows can post neither text nor, with its origin, JSON into
// the ledger, whatever name it has given to this address. (open-mercato/cezar#426)
func TestServer_keeps_pages_out(t *testing.T) {
	t.Parallel()
	for kind, status := range map[string]int{
		"text/plain": 415, "application/x-www-form-urlencoded": 415, "application/jsonx": 415, "": 415, "application/json; charset=utf-8": 200,
	} {
		for origin, refused := range map[string]bool{"": false, "null": true, "https://evil.example": true, "http://127.0.0.1": true} {
			s, w := New(Options{}), httptest.NewRecorder()
			r := httptest.NewRequest("POST", "/push", strings.NewReader(`{"id":"n","user":"7","text":"hello"}`))
			r.Header.Set("Content-Type", kind)
			want := status
			if refused {
				r.Header.Set("Origin", origin)
				want = 403
			}
			s.ServeHTTP(w, r)
			if w.Code != want || (s.Len() == 1) != (want == 200) {
				t.Errorf("%q from %q: %d, want %d; ledger: %+v", kind, origin, w.Code, want, s.Calls())
			}
		}
	}
}

func TestServer_takes_the_longest_notification(t *testing.T) {
	t.Parallel()
	s, c := pair(t, Faults{})
	a := attempt(strings.Repeat("i", notify.MaxName), strings.Repeat("u", notify.MaxName))
	a.Notification.Text = strings.Repeat("\x01", notify.MaxText) // six bytes each as JSON
	if r := c.Send(soon(t), a); r.Answer != notify.Accepted {
		t.Fatalf("got %+v", r)
	}
	if got := s.Calls()[0].Text; got != a.Notification.Text {
		t.Errorf("got %d bytes of text", len(got))
	}
}

func TestServer_refuses_the_push_of_user_999_alone(t *testing.T) {
	t.Parallel()
	s, c := pair(t, Faults{})
	want := notify.Result{Answer: notify.RefusedForNow, Reason: "400 invalid device token"}
	for range 3 {
		if got := c.Send(soon(t), keyed("n", badUser)); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	email := attempt("n", badUser)
	email.Channel = notify.Email
	if got := c.Send(soon(t), email); got.Answer != notify.Accepted {
		t.Errorf("email: got %+v, want accepted", got)
	}
	if s.Refused("n", notify.Push) != 3 || s.Accepted("n", notify.Push) != 0 || s.Accepted("n", notify.Email) != 1 {
		t.Errorf("ledger: %+v", s.Calls())
	}
}

func TestServer_shows_its_ledger(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	at := listen(t, s).URL()
	c := client(t, at, ClientOptions{})
	ledger := func() []map[string]any {
		t.Helper()
		res, err := http.Get(at + "/ledger")
		if err != nil {
			t.Fatal(err)
		}
		defer http.DefaultClient.CloseIdleConnections()
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		var calls []map[string]any
		if err := json.Unmarshal(body, &calls); err != nil || calls == nil {
			t.Fatalf("%v: %s", err, body)
		}
		if kind := res.Header.Get("Content-Type"); kind != "application/json" {
			t.Errorf("Content-Type %q", kind)
		}
		return calls
	}
	if got := ledger(); len(got) != 0 {
		t.Errorf("before any call: %v", got)
	}
	c.Send(soon(t), keyed("n", "7"))
	c.Send(soon(t), attempt("n", "7"))
	c.Send(soon(t), keyed("n", "7"))
	c.Send(soon(t), attempt("n", badUser))
	for range pageSize {
		c.Send(soon(t), attempt("more", "7"))
	}

	got := ledger()
	if len(got) != 4+pageSize {
		t.Fatalf("%d calls, want %d", len(got), 4+pageSize)
	}
	for _, m := range got[:4] {
		if _, err := time.Parse(time.RFC3339Nano, m["time"].(string)); err != nil {
			t.Error(err)
		}
		delete(m, "time")
	}
	var want []map[string]any
	for _, s := range []string{
		`{"id":"n","channel":"push","user":"7","text":"hello","key":"n:push:7","kind":"accepted","status":200}`,
		`{"id":"n","channel":"push","user":"7","text":"hello","kind":"accepted_again","status":200}`,
		`{"id":"n","channel":"push","user":"7","text":"hello","key":"n:push:7","kind":"deduplicated","status":200}`,
		`{"id":"n","channel":"push","user":"999","text":"hello","kind":"refused","status":400,"reason":"invalid device token"}`,
	} {
		var m map[string]any
		if err := json.Unmarshal([]byte(s), &m); err != nil {
			t.Fatal(err)
		}
		want = append(want, m)
	}
	if fmt.Sprint(got[:4]) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got[:4], want)
	}
}

func TestServer_emits_before_it_answers(t *testing.T) {
	t.Parallel()
	var h event.History
	s := New(Options{Emit: h.Add})
	c := client(t, listen(t, s).URL(), ClientOptions{})
	for i, a := range []notify.Attempt{keyed("n", "7"), attempt("n", "7"), keyed("n", "7"), attempt("n", badUser)} {
		c.Send(soon(t), a)
		if h.Len() != i+1 {
			t.Fatalf("%d events after %d answers", h.Len(), i+1)
		}
	}
	got := h.All()
	for i := range got {
		if got[i].Time.IsZero() {
			t.Errorf("event %d has no time", i)
		}
		got[i].Time = time.Time{}
	}
	about := event.Event{Source: "provider", ID: "n", Channel: "push", User: "7", Text: "hello"}
	first, again, known, refused := about, about, about, about
	first.Kind, first.Key = event.Accepted, "n:push:7"
	again.Kind = event.AcceptedAgain
	known.Kind, known.Key = event.Deduplicated, "n:push:7"
	refused.Kind, refused.User, refused.Reason = event.Refused, badUser, badReason
	if want := []event.Event{first, again, known, refused}; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// However many send the same at once, with a key it is accepted once, without
// one each time, and only the first is not again.
func TestServer_under_concurrent_clients(t *testing.T) {
	t.Parallel()
	s, c := pair(t, Faults{})
	var senders sync.WaitGroup
	for range 16 {
		senders.Go(func() {
			for i := range 20 {
				c.Send(soon(t), keyed(fmt.Sprint("key-", i), "7"))
				c.Send(soon(t), attempt(fmt.Sprint("bare-", i), "7"))
			}
		})
	}
	senders.Wait()
	for i := range 20 {
		for id, want := range map[string]int{fmt.Sprint("key-", i): 1, fmt.Sprint("bare-", i): 16} {
			if got := s.Accepted(id, notify.Push); got != want {
				t.Errorf("%s: %d accepted, want %d", id, got, want)
			}
		}
	}
	for k, want := range map[event.Kind]int{event.Accepted: 40, event.AcceptedAgain: 15 * 20, event.Deduplicated: 15 * 20} {
		if got := s.Count(k); got != want {
			t.Errorf("%d %s, want %d", got, k, want)
		}
	}
}

// Who calls is in the ledger and its events if they say so, and nobody else sends it.
func TestServer_knows_who_called(t *testing.T) {
	t.Parallel()
	var h event.History
	s := New(Options{Emit: h.Add})
	url := listen(t, s).URL()
	for _, says := range []bool{true, false} {
		client(t, url, ClientOptions{SayPid: says}).Send(soon(t), attempt("n", "7"))
	}
	req, err := http.NewRequest(http.MethodPost, url+"/push", strings.NewReader(`{"id":"n","user":"7","text":"hello"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, CallerHeader: {"a worker"}}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	calls, events := s.Calls(), h.All()
	for i, want := range []int{os.Getpid(), 0, 0} {
		if calls[i].Caller != want || events[i].Caller != want {
			t.Errorf("call %d: %d in the ledger, %d in its event, want %d", i, calls[i].Caller, events[i].Caller, want)
		}
	}
}
