package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	flags := func(idempotency, lease, key bool) object {
		return object{"idempotency": idempotency, "claimLease": lease, "providerKey": key}
	}
	r.want(r.ask("GET", "/api/lab/flags", ""), 200, flags(false, false, false))
	r.want(r.ask("PUT", "/api/lab/flags", `{"idempotency":true,"claimLease":false}`), 200, flags(true, false, false))
	r.want(r.ask("PUT", "/api/lab/flags", `{"idempotency":false,"claimLease":true,"providerKey":true}`), 200, flags(false, true, true))
	r.want(r.ask("PUT", "/api/lab/flags", `{"idempotency":true,"claimLease":true}`), 200, flags(true, true, true))
	for body, says := range map[string]string{
		`{"idempotency":true}`:                   "must both be given",
		`{"claimLease":true}`:                    "must both be given",
		`{}`:                                     "must both be given",
		`{"idempotency":null,"claimLease":true}`: "must both be given",
		`{"idempotency":"on","claimLease":true}`: `field "idempotency" is a string: want true or false`,
		`{"idempotency":1,"claimLease":true}`:    `field "idempotency" is a number`,
		`{"idempotency":false,"claimLease":false,"claim":true}`: `field "claim": there are claimLease, idempotency, providerKey`,
		`{"idempotency":false,"claimLease":false}[]`:            "something follows",
		``: "the body is empty",
	} {
		got := r.ask("PUT", "/api/lab/flags", body, "Content-Type", "application/json")
		r.want(got, 400)
		if !strings.Contains(got.text, says) && !strings.Contains(fmt.Sprint(got.body["error"]), says) {
			t.Errorf("%s: %s, want %s", body, got.text, says)
		}
	}
	r.want(r.ask("PUT", "/api/lab/flags", `{"idempotency":false,"claimLease":false}`, "Content-Type", "text/plain"), 415)
	if v, err := lab.NewSettings(r.redis, r.ns).Get(soon(t)); v != (event.Settings{Idempotency: true, ClaimLease: true, ProviderKey: true}) || err != nil {
		t.Errorf("changed: %+v, %v", v, err)
	}
}

func TestQueues(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if got := r.ask("GET", "/api/lab/queues", ""); got.status != 200 || got.text != "[]\n" {
		t.Errorf("before any is declared: %d %s", got.status, got.text)
	}
	r.want(r.ask("POST", "/api/notify", `{"channels":["push"]}`), 202)
	if err := lab.NewNotes(r.redis, r.ns, 0).Alive(soon(t), lab.WorkerNote{Name: "push-worker-1", Owner: "o", Queue: r.names().Work(notify.Push), InHand: 3}); err != nil {
		t.Fatal(err)
	}
	got := r.ask("GET", "/api/lab/queues", "")
	r.want(got, 200)
	var lines []string
	for _, q := range got.list {
		lines = append(lines, fmt.Sprintf("%v %s %v %v %v %v", q["kind"], r.ns.Bare(q["queue"].(string)), q["ready"], q["in_hand"], q["consumers"], q["type"]))
	}
	want := "queue email.dlq 0 0 0 quorum|queue notify.email 0 0 0 quorum|queue notify.push 1 3 0 quorum|queue push.dlq 0 0 0 quorum"
	if text := strings.Join(lines, "|"); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	r.delete(r.names().Work(notify.Email))
	if got := r.ask("GET", "/api/lab/queues", ""); len(got.list) != 3 {
		t.Errorf("one that is gone is listed: %s", got.text)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.record(note("a"), idem.Done)
	r.record(note("b"), idem.Pending)
	for query, want := range map[string]string{"": "a done, b pending", "?id=a": "a done", "?state=pending": "b pending", "?id=a&state=claimed": "", "?id=a:push": "", "?id=*": ""} {
		got := r.ask("GET", "/api/lab/keys"+query, "")
		r.want(got, 200)
		var found []string
		for _, k := range got.list {
			found = append(found, fmt.Sprint(k["id"], " ", k["state"]))
			if k["kind"] != "record" || k["channel"] != "push" || k["user"] != "7" || k["ttl_ms"].(float64) <= 0 {
				t.Errorf("got %v", k)
			}
		}
		if text := strings.Join(found, ", "); text != want {
			t.Errorf("%s: got %q, want %q", query, text, want)
		}
	}
	for query, says := range map[string]string{"?state=gone": "claimed, pending, done", "?ids=a": "id, state", "?id=a&id=b": "given twice", "?id=%zz": "can't be read"} {
		got := r.ask("GET", "/api/lab/keys"+query, "")
		if r.want(got, 400); !strings.Contains(got.text, says) {
			t.Errorf("%s: %s", query, got.text)
		}
	}
}

// record writes an idempotency record for push, as a worker that is gone.
func (r *rig) record(n notify.Notification, state idem.State) {
	r.Helper()
	rec := idem.Record{State: state, Owner: idem.Owner{Boot: "b", File: "1:2", Slot: 3, Life: "l"}, Nonce: "n", Fingerprint: notify.Fingerprint(n)}
	if err := r.redis.Set(soon(r), r.ns.Key(notify.Key(n, notify.Push)), rec.String(), time.Minute).Err(); err != nil {
		r.Fatal(err)
	}
}

// A page's next is the beginning of the following, without a hole or a repetition,
// from nothing on.
func TestEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	journal := lab.NewJournal(r.redis, r.ns, 0)
	write := func(from, to int) {
		for i := from; i <= to; i++ {
			journal.Add(event.Event{Time: time.Now(), Kind: event.Sent, Source: "push-worker-1", ID: fmt.Sprint("n", i)})
		}
		if err := journal.Flush(soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	defer journal.Close(soon(t))
	read := func(query string) (ids []string, next string) {
		got := r.ask("GET", "/api/lab/events"+query, "")
		r.want(got, 200)
		for _, e := range got.body["events"].([]any) {
			ids = append(ids, e.(object)["id"].(string))
		}
		return ids, got.body["next"].(string)
	}
	ids, next := read("")
	if len(ids) > 0 {
		t.Errorf("of nothing: %v", ids)
	}
	write(1, 25)
	var all []string
	for {
		ids, after := read("?limit=10&since=" + next)
		if all = append(all, ids...); len(ids) == 0 {
			if after != next {
				t.Errorf("the end moves from %s to %s", next, after)
			}
			break
		}
		if len(ids) > 10 {
			t.Errorf("%d on a page", len(ids))
		}
		next = after
	}
	if len(all) != 25 || all[0] != "n1" || all[24] != "n25" {
		t.Errorf("pages %v", all)
	}
	write(26, 27)
	if ids, _ := read("?since=" + next); strings.Join(ids, " ") != "n26 n27" {
		t.Errorf("then %v", ids)
	}
	if ids, _ := read("?limit=2"); strings.Join(ids, " ") != "n26 n27" {
		t.Errorf("the newest are %v", ids)
	}
	if ids, _ := read("?since=1h"); len(ids) != 27 {
		t.Errorf("of the last hour: %v", ids)
	}
	if ids, _ := read("?since=" + time.Now().Add(time.Hour).UTC().Format(time.RFC3339)); len(ids) != 0 {
		t.Errorf("of the future: %v", ids)
	}
	for _, query := range []string{"?limit=0", "?limit=-1", "?limit=10001", "?limit=x", "?limit=", "?since=yesterday", "?until=1h"} {
		r.want(r.ask("GET", "/api/lab/events"+query, ""), 400)
	}
}

// After a reset all is gone, and the api goes on.
func TestReset(t *testing.T) {
	t.Parallel()
	r, other := newRig(t), newRig(t)
	r.want(other.ask("POST", "/api/notify", `{"id":"n"}`), 202)
	r.want(r.ask("POST", "/api/notify", `{"id":"n"}`), 202)
	r.want(r.ask("PUT", "/api/lab/flags", `{"idempotency":true,"claimLease":true}`), 200)
	r.record(note("n"), idem.Done)
	r.want(r.ask("POST", "/api/lab/reset", "", "Origin", "https://evil.example"), 403)
	r.want(r.ask("POST", "/api/lab/reset?namespace=x", ""), 400)
	r.want(r.ask("POST", "/api/lab/reset", `{"yes":true}`), 400)
	r.want(r.ask("POST", "/api/lab/reset", `x=1`, "Content-Type", "application/x-www-form-urlencoded"), 415)
	// Of keys: settings, a note of queues, one of what was queued, a record.
	r.want(r.ask("POST", "/api/lab/reset", ""), 200, object{"kind": "reset", "queues": 4.0, "keys": 4.0})
	r.want(r.ask("POST", "/api/lab/reset", "{}"), 200, object{"kind": "reset", "queues": 0.0, "keys": 0.0})
	r.want(r.ask("GET", "/api/notifications/n", ""), 404)
	r.want(r.ask("GET", "/api/lab/flags", ""), 200, object{"idempotency": false, "claimLease": false, "providerKey": false})
	r.want(r.ask("POST", "/api/notify", `{"id":"n"}`), 202)
	if n := len(r.ask("GET", "/api/lab/queues", "").list); n != 4 || r.ready(r.names().Work(notify.Push)) != 1 {
		t.Errorf("%d queues", n)
	}
	if n := other.ready(other.names().Work(notify.Push)); n != 1 {
		t.Errorf("%d left of another namespace", n)
	}
}

func TestHealthReadinessMetrics(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(r.ask("GET", "/healthz", ""), 200, object{"status": "alive"})
	r.want(r.ask("GET", "/readyz", ""), 200, object{"status": "ready", "rabbitmq": "ok", "redis": "ok"})
	r.want(r.ask("POST", "/api/notify", `{}`), 202)
	r.want(r.ask("GET", "/api/notifications/some", ""), 404)
	r.want(r.ask("GET", "/api/notifications/other", ""), 404)
	r.want(r.ask("GET", "/elsewhere", ""), 404)
	text := r.ask("GET", "/metrics", "").text
	for _, line := range []string{
		`notifylab_http_requests_total{route="POST /api/notify",status="202"} 1`,
		`notifylab_http_requests_total{route="GET /api/notifications/{id}",status="404"} 2`,
		`notifylab_http_requests_total{route="none",status="404"} 1`,
		`notifylab_published_total{channel="push",fate="confirmed"} 1`,
		`notifylab_http_request_seconds_count{route="GET /healthz"} 1`,
		"go_goroutines ", "process_start_time_seconds ",
	} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("no %s", line)
		}
	}
}
