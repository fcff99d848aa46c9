package api

import (
	"strings"
	"sync"
	"testing"

	"notifylab/internal/broker"
	"notifylab/internal/notify"
)

// A 202 means that every channel's message is in its queue.
func TestNotify(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	push, email := r.names().Work(notify.Push), r.names().Work(notify.Email)
	got := r.ask("POST", "/api/notify", `{"mode":"default"}`)
	id, _ := got.body["id"].(string)
	r.want(got, 202, object{"queued": true, "id": id, "user": "7", "mode": "default", "queues": []any{"notify.push", "notify.email"}})
	if id == "" || r.ready(push) != 1 || r.ready(email) != 1 {
		t.Errorf("id %q, %d and %d in the queues", id, r.ready(push), r.ready(email))
	}
	r.want(r.ask("POST", "/api/notify", `{"mode":"bad-token"}`), 202)
	r.want(r.ask("POST", "/api/notify", `{"id":"own","user":"8","text":"<b>\n","channels":["email","email"]}`), 202,
		object{"queued": true, "id": "own", "user": "8", "mode": "default", "queues": []any{"notify.email"}})
	r.want(r.ask("POST", "/api/notify", ` {"mode":"crash","id":null} `, "Content-Type", "application/json; charset=utf-8"), 202)
	if r.ready(push) != 3 || r.ready(email) != 2 {
		t.Errorf("%d and %d in the queues, want 3 and 2", r.ready(push), r.ready(email))
	}
	parked, err := r.dial().Look(soon(t), push, 3)
	if err != nil || len(parked) != 3 || !strings.Contains(string(parked[1].Body), `"user":"999","text":"hello"`) {
		t.Errorf("got %+v, %v", parked, err)
	}
}

// A request that makes no sense is told why, and nothing is queued.
func TestNotify_Refuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for body, says := range map[string]string{
		`{"mode":"defualt"}`:                `mode "defualt": there are bad-token, crash, default`,
		`{"mode":""}`:                       `mode ""`,
		`{"colour":"red"}`:                  `field "colour": there are channels, id, mode, text, user`,
		`{"Mode":"crash"}`:                  `field "Mode"`,
		`{"mode":"default","mode":"crash"}`: `field "mode" is given twice`,
		`{"mode":"default"}{}`:              "something follows",
		`{"mode":"default"} x`:              "something follows",
		`mode=default`:                      "not JSON",
		`{"mode":"default"`:                 "not JSON",
		`{"mode":`:                          "not JSON",
		`null`:                              "not a JSON object",
		`[]`:                                "not a JSON object",
		`"default"`:                         "not a JSON object",
		` `:                                 "the body is empty",
		`{"mode":7}`:                        `field "mode" is a number: want a string`,
		`{"channels":"push"}`:               `field "channels" is a string: want a list of strings`,
		`{"channels":["sms"]}`:              `no channel "sms": there are push, email`,
		`{"channels":[]}`:                   "channels is empty",
		`{"id":""}`:                         "id is empty",
		`{"id":"a:b"}`:                      "id ",
		`{"user":""}`:                       "user is empty",
		`{"user":"` + strings.Repeat("u", 200) + `"}`:    "user has 200 bytes",
		`{"text":"` + strings.Repeat("t", 17<<10) + `"}`: "text has 17408 bytes",
		"{\"text\":\"\xff\"}":                            "not UTF-8",
	} {
		got := r.ask("POST", "/api/notify", body)
		r.want(got, 400)
		if text, _ := got.body["error"].(string); !strings.Contains(text, says) {
			t.Errorf("%.60s: %s, want %s", body, text, says)
		}
	}
	got := r.ask("POST", "/api/notify?mode=crash", `{}`)
	r.want(got, 400, object{"error": `parameter "mode": there are none`})
	r.want(r.ask("POST", "/api/notify", `{"text":"`+strings.Repeat(" ", 32<<10)+`"}`), 413)
	r.want(r.ask("POST", "/api/notify", strings.Repeat("x", 5<<20)), 413)
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""} {
		r.want(r.ask("POST", "/api/notify", `{"mode":"default"}`, "Content-Type", kind), 415)
	}
	r.want(r.ask("GET", "/api/notify", ""), 405)
	r.want(r.ask("GET", "/api/nothing", ""), 404)
	for _, q := range (broker.Topology{Names: r.names(), Channels: notify.Channels()}).QueueNames() {
		if n, _, _, err := r.dial().Ready(soon(t), q); n > 0 || err != nil {
			t.Errorf("%d in %s, %v", n, q, err)
		}
	}
}

// What is refused in part says so of each channel, and the same id completes it.
// (emqx/emqx#9170)
func TestNotify_RefusedInPart(t *testing.T) {
	t.Parallel()
	t.Run("a queue is gone", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.want(r.ask("POST", "/api/notify", `{"id":"first"}`), 202)
		r.delete(r.names().Work(notify.Email))
		got := r.ask("POST", "/api/notify", `{"id":"n"}`)
		r.want(got, 503, object{"queued": false, "id": "n", "error": "notify.email: returned: 312 NO_ROUTE",
			"channels": object{"push": "confirmed", "email": "returned"}})
		r.want(r.ask("GET", "/api/notifications/n", ""), 200, object{"id": "n", "channels": object{"push": "queued"}})
		r.want(r.ask("POST", "/api/notify", `{"id":"n"}`), 202)
		if p, e := r.ready(r.names().Work(notify.Push)), r.ready(r.names().Work(notify.Email)); p != 3 || e != 1 {
			t.Errorf("%d and %d in the queues", p, e)
		}
	})
	t.Run("a queue is full", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.want(r.ask("POST", "/api/notify", `{"id":"first"}`), 202)
		r.fill(r.names().Work(notify.Email))
		key := []string{"Idempotency-Key", "k"}
		got := r.ask("POST", "/api/notify", `{}`, key...)
		id, _ := got.body["id"].(string)
		r.want(got, 503, object{"queued": false, "id": id, "error": "notify.email: nacked: refused by the broker",
			"channels": object{"push": "confirmed", "email": "nacked"}})
		r.delete(r.names().Work(notify.Email))
		got = r.ask("POST", "/api/notify", `{}`, key...)
		if r.want(got, 503); got.body["id"] != id || got.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("want %s again: %s", id, got.text)
		}
		got = r.ask("POST", "/api/notify", `{}`, key...)
		if r.want(got, 202); got.body["id"] != id {
			t.Errorf("want %s again: %s", id, got.text)
		}
	})
}

// Two hundred at once are all answered, and what is confirmed is there.
// (rabbitmq/amqp091-go#42)
func TestNotify_Parallel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			if got, err := r.try("POST", "/api/notify", `{"mode":"default"}`); err != nil || got.status != 202 {
				t.Error(got.status, got.text, err)
			}
		})
	}
	wg.Wait()
	for _, c := range notify.Channels() {
		if n := r.ready(r.names().Work(c)); n != 200 {
			t.Errorf("%d of 200 on %s", n, c)
		}
	}
}

// A page of another site does not get in. (Canonry/canonry#1177)
func TestGuard(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	port := r.url[strings.LastIndex(r.url, ":"):]
	for _, tt := range []struct {
		name, value string
		status      int
	}{
		{"Host", "localhost" + port, 202}, {"Host", "127.0.0.1", 202}, {"Host", "[::1]" + port, 202}, {"Host", "LocalHost", 202},
		{"Host", "evil.example", 403}, {"Host", "localhost.evil.example" + port, 403}, {"Host", "10.0.0.1" + port, 403}, {"Host", "127.0.0.1.evil.example", 403},
		{"Origin", "http://localhost:8080", 202}, {"Origin", "http://127.0.0.1", 202}, {"Origin", "http://[::1]:1", 202},
		{"Origin", "https://evil.example", 403}, {"Origin", "null", 403}, {"Origin", "http://localhost.evil.example", 403}, {"Origin", "file://", 403}, {"Origin", "http://%zz", 403},
	} {
		got := r.ask("POST", "/api/notify", `{"channels":["push"]}`, tt.name, tt.value)
		if got.status != tt.status {
			t.Errorf("%s %s: %d, want %d", tt.name, tt.value, got.status, tt.status)
		}
		for h := range got.header {
			if strings.HasPrefix(h, "Access-Control") {
				t.Errorf("%s %s: %s", tt.name, tt.value, h)
			}
		}
	}
	r.server.AnyHost = true
	for origin, status := range map[string]int{"http://lab.example": 202, "http://evil.example": 403} {
		if got := r.ask("POST", "/api/notify", `{}`, "Host", "lab.example", "Origin", origin); got.status != status {
			t.Errorf("on every address, Origin %s: %d, want %d", origin, got.status, status)
		}
	}
}
