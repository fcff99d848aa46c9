package api

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
)

const dlq = "/api/lab/dlq/push"

// letters returns the ids of the dead letters that match, as the api lists them.
func (r *rig) letters(query string) []string {
	r.Helper()
	got := r.ask("GET", dlq+query, "")
	r.want(got, 200)
	ids := []string{}
	for _, l := range got.body["dead_letters"].([]any) {
		ids = append(ids, l.(object)["id"].(string))
	}
	if all := int(got.body["all"].(float64)); all != len(ids) && len(ids) != maxLetters {
		r.Errorf("%d of %d", len(ids), all)
	}
	return ids
}

func (r *rig) wantLetters(query, want string) {
	r.Helper()
	if got := strings.Join(r.letters(query), " "); got != want {
		r.Errorf("dead letters %s: %q, want %q", query, got, want)
	}
}

func (r *rig) work() string { return r.names().Work(notify.Push) }

func sum(replayed, already, unknown int, dry bool) object {
	return object{"kind": "replayed", "replayed": float64(replayed), "already_sent": float64(already), "unknown": float64(unknown), "lost": 0.0, "dry_run": dry}
}

func TestDeadLetters_ListAndPurge(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.wantLetters("", "") // there is no queue yet
	r.want(r.ask("DELETE", dlq, ""), 200, object{"kind": "purged", "purged": 0.0})
	r.park(note("a"), notify.Notification{ID: "b", User: "8", Text: "<&>"}, notify.Notification{ID: "c", User: "7", Text: "odd"})
	for query, want := range map[string]string{
		"": "a b c", "?id=b": "b", "?user=7": "a c", "?reason=malformed": "c", "?user=7&reason=refused": "a", "?id=a&user=8": "", "?id=": "a b c",
	} {
		r.wantLetters(query, want)
	}
	l := r.ask("GET", dlq+"?id=b", "").body["dead_letters"].([]any)[0].(object)
	history := l["history"].([]any)
	delete(l, "history")
	want := object{
		"kind": "dead_letter", "queue": r.names().DeadLetters(notify.Push), "id": "b", "user": "8", "reason": "refused", "by_broker": false,
		"attempts": 3.0, "first_error": "410 Gone", "last_error": "410 Gone", "time": "2023-11-14T22:13:20Z", "worker": "push-worker-1",
		"bytes": 34.0, "body": `{"id":"b","user":"8","text":"<&>"}`,
	}
	if fmt.Sprint(l) != fmt.Sprint(want) || len(history) != 1 || !strings.Contains(history[0].(string), "refused: 410 Gone") {
		t.Errorf("got  %v, %v\nwant %v", l, history, want)
	}
	// What is not understood chooses nothing.
	for _, request := range []string{"DELETE " + dlq + "?ids=a", "DELETE " + dlq + "?id=%zz", "DELETE " + dlq + "?id=a&id=b", "POST " + dlq + "/replay?dry_run=true", "POST " + dlq + "/replay?dry-run=perhaps", "GET " + dlq + "?limit=1"} {
		method, path, _ := strings.Cut(request, " ")
		r.want(r.ask(method, path, ""), 400)
	}
	r.want(r.ask("DELETE", dlq, `{"id":"a"}`), 400)
	r.want(r.ask("POST", dlq+"/replay", `{"id":"a"}`), 400)
	r.want(r.ask("POST", dlq+"/replay", "id=a", "Content-Type", "text/plain"), 415)
	for _, method := range []string{"GET", "DELETE"} {
		got := r.ask(method, "/api/lab/dlq/sms", "")
		r.want(got, 404, object{"error": `no channel "sms": there are push, email`})
	}
	r.wantLetters("", "a b c")
	r.want(r.ask("DELETE", dlq+"?reason=malformed", ""), 200, object{"kind": "purged", "purged": 1.0})
	r.wantLetters("", "a b")
	r.want(r.ask("DELETE", dlq, ""), 200, object{"kind": "purged", "purged": 2.0})
	r.wantLetters("", "")
}

// Bytes that are no text are shown as they are, too.
func TestLetter_Bytes(t *testing.T) {
	t.Parallel()
	body := []byte{'{', 0xff, 0}
	l := Desk{}.letter(notify.Push, broker.DeadLetter{ID: "raw", Body: body})
	if l.ID != "raw" || l.Bytes != 3 || string(l.Base64) != string(body) || l.History == nil || l.Time != "" {
		t.Errorf("got %+v, want %s", l, base64.StdEncoding.EncodeToString(body))
	}
	if l := (Desk{}).letter(notify.Push, broker.DeadLetter{Body: []byte("text")}); l.Base64 != nil {
		t.Errorf("got %+v", l)
	}
}

// The record is read first: what was sent stays, of what is claimed nobody knows.
func TestReplay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.park(note("none"), note("pending"), note("done"), note("claimed"), note("another"))
	for _, state := range []idem.State{idem.Pending, idem.Done, idem.Claimed} {
		r.record(note(string(state)), state)
	}
	r.record(notify.Notification{ID: "another", User: "7", Text: "another text"}, idem.Done)
	says := map[string]string{}
	dry, err := r.desk().Replay(soon(t), notify.Push, ReplayOptions{DryRun: true, Force: true, Tell: func(l Letter, what string) { says[l.ID] = what }})
	want := map[string]string{"none": WouldReplay, "pending": WouldReplay, "claimed": WouldReplay, "done": WasSent, "another": WasAnother}
	if err != nil || fmt.Sprint(says) != fmt.Sprint(want) || dry.Replayed != 3 {
		t.Errorf("dry run: %v, %+v, %v", says, dry, err)
	}
	r.want(r.ask("POST", dlq+"/replay?dry-run=on", ""), 200, sum(2, 2, 1, true))
	r.wantLetters("", "none pending done claimed another")
	if n := len(r.ask("GET", "/api/lab/keys?state=claimed", "").list); n != 1 || r.ready(r.work()) != 0 {
		t.Error("a dry run did something")
	}
	r.want(r.ask("POST", dlq+"/replay?id=none", ""), 200, sum(1, 0, 0, false))
	r.want(r.ask("POST", dlq+"/replay", ""), 200, sum(1, 2, 1, false))
	r.wantLetters("", "done claimed another")
	r.want(r.ask("POST", dlq+"/replay?force=1", ""), 200, sum(1, 2, 0, false))
	r.wantLetters("", "done another")
	if n := len(r.ask("GET", "/api/lab/keys?state=claimed", "").list); n != 0 || r.ready(r.work()) != 3 {
		t.Errorf("%d claimed, %d in the work queue", n, r.ready(r.work()))
	}
	r.want(r.ask("POST", dlq+"/replay", ""), 200, sum(0, 2, 0, false))
}

// What can't be replayed stays, and the answer says what was done before.
func TestReplay_InPart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.park(note("a"), note("b"), note("c"))
	r.record(note("a"), idem.Done)
	r.delete(r.work())
	got := r.ask("POST", dlq+"/replay", "")
	r.want(got, 503, object{"error": "replay b to " + r.work() + ": returned: 312 NO_ROUTE", "done": sum(0, 1, 0, false)})
	r.wantLetters("", "a b c")
}

// Requests take turns, with each other and with others; who waits in vain is told
// for whom.
func TestDeadLetters_TakeTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 40
	var all []notify.Notification
	for i := range n {
		all = append(all, note(fmt.Sprint("n", i)))
	}
	r.park(all...)
	holding, over := make(chan struct{}), make(chan error)
	release, letGo := context.WithCancel(soon(t))
	desk := r.desk()
	go func() {
		first := true
		_, err := desk.Replay(release, notify.Push, ReplayOptions{DryRun: true, Tell: func(Letter, string) {
			if first {
				first = false
				close(holding)
				<-release.Done()
			}
		}})
		over <- err
	}()
	<-holding
	r.within(18*time.Second, func() {
		got := r.ask("GET", dlq, "")
		r.want(got, 409)
		if text := fmt.Sprint(got.body["error"]); !strings.Contains(text, "the dead letters of push are taken: a test, pid ") || !strings.Contains(text, ", since ") {
			t.Error(text)
		}
	})
	letGo()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}

	// In parallel through one api: each letter is replayed once, by one of them.
	var wg sync.WaitGroup
	var mu sync.Mutex
	replayed := 0
	for range 4 {
		wg.Go(func() {
			got, err := r.try("POST", dlq+"/replay", "")
			if err != nil || got.status != 200 {
				t.Error(got.status, got.text, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			replayed += int(got.body["replayed"].(float64))
		})
		wg.Go(func() {
			if got, err := r.try("GET", dlq, ""); err != nil || got.status != 200 {
				t.Error(got.status, got.text, err)
			} else if shown := len(got.body["dead_letters"].([]any)); shown != 0 && shown != n {
				t.Errorf("%d are seen in the middle of a replay", shown)
			}
		})
	}
	wg.Wait()
	if in := r.ready(r.work()); replayed != n || in != n {
		t.Errorf("%d of %d replayed, %d in the work queue", replayed, n, in)
	}
}

// Two thousand are listed and replayed; one answer shows the first thousand.
func TestDeadLetters_TwoThousand(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, c := soon(t), r.dial()
	r.ok(c.Declare(ctx, r.server.Topology))
	p, err := c.Publisher(ctx, 2000)
	r.ok(err)
	var receipts []*broker.Receipt
	for i := range 2000 {
		n := note(fmt.Sprint("n", i))
		receipt, err := p.Start(ctx, broker.Message{Queue: r.names().DeadLetters(notify.Push), ID: n.ID, Body: notify.Encode(n)})
		r.ok(err)
		receipts = append(receipts, receipt)
	}
	for _, receipt := range receipts {
		if fate, err := receipt.Wait(ctx); fate != broker.Confirmed {
			t.Fatal(fate, err)
		}
	}
	got := r.letters("")
	if len(got) != maxLetters || got[0] != "n0" || got[maxLetters-1] != "n999" {
		t.Errorf("%d letters, %s to %s", len(got), got[0], got[len(got)-1])
	}
	r.wantLetters("?id=n1999", "n1999")
	r.want(r.ask("GET", "/api/notifications/n1999", ""), 200, object{"id": "n1999", "channels": object{"push": "parked"}})
	r.want(r.ask("POST", dlq+"/replay", ""), 200, sum(2000, 0, 0, false))
	if n := r.ready(r.work()); n != 2000 {
		t.Errorf("%d in the work queue", n)
	}
}
