package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/lab"
	"notifylab/internal/notify"
)

// A key makes one event of however many requests. (hookdeck/outpost#520)
func TestNotify_IdempotencyKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.ask("POST", "/api/notify", `{"user":"7"}`, "Idempotency-Key", "k")
	r.want(first, 202)
	again := r.ask("POST", "/api/notify", ` { "user" : "7" }`, "Idempotency-Key", "k")
	r.want(again, 202, first.body)
	if first.header.Get("Idempotency-Replayed") != "" || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("headers %v and %v", first.header, again.header)
	}
	r.want(r.ask("POST", "/api/notify", `{"user":"8"}`, "Idempotency-Key", "k"), 422)
	r.want(r.ask("POST", "/api/notify", `{"user":"7"}`, "Idempotency-Key", "other"), 202)
	r.want(r.ask("POST", "/api/notify", `{"user":"7"}`, "Idempotency-Key", strings.Repeat("k", 256)), 400)
	if n := r.events(r.names().Work(notify.Push)); n != 2 {
		t.Errorf("%d in the queue, want 2", n)
	}

	for round := range 5 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		ids := map[any]int{}
		for range 20 {
			wg.Go(func() {
				for {
					got, err := r.try("POST", "/api/notify", `{"user":"9"}`, "Idempotency-Key", fmt.Sprint("many", round))
					if err == nil && got.status == 409 {
						continue
					}
					if err != nil || got.status != 202 {
						t.Error(got.status, got.text, err)
					}
					mu.Lock()
					defer mu.Unlock()
					ids[got.body["id"]]++
					return
				}
			})
		}
		wg.Wait()
		if n := r.events(r.names().Work(notify.Email)); len(ids) != 1 || n != 3+round {
			t.Fatalf("round %d: events %v, %d in the queue, want %d", round, ids, n, 3+round)
		}
	}
}

// Who finds a request open and its holder gone may have come while it was done.
func TestNotify_IdempotencyKeyDoneMeanwhile(t *testing.T) {
	t.Parallel()
	r, other := newRig(t), newRig(t)
	body, err := json.Marshal(notifyBody{})
	r.ok(err)
	sum := sha256.Sum256(body)
	keys := lab.NewRequests(other.redis, r.ns)
	first, err := keys.Begin(soon(t), "k", hex.EncodeToString(sum[:8]), "first")
	r.ok(err)
	var once sync.Once
	r.redis.AddHook(before(func(cmd redis.Cmder) {
		if strings.Contains(cmd.String(), "lab:request-busy:k") {
			once.Do(func() { r.ok(keys.End(soon(t), "k", first, true)) })
		}
	}))
	got := r.ask("POST", "/api/notify", `{}`, "Idempotency-Key", "k")
	if r.want(got, 202); got.body["id"] != "first" || got.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("got %s, %v", got.text, got.header)
	}
	if n, _, _, err := r.dial().Ready(soon(t), r.names().Work(notify.Push)); n > 0 || err != nil {
		t.Errorf("%d in the queue, %v", n, err)
	}
}

// That it was done is remembered though Redis is slow: there is time, and who forgets
// publishes again.
func TestNotify_IdempotencyKeyDoneAndRedisSlow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.redis.AddHook(before(func(cmd redis.Cmder) {
		if strings.Contains(cmd.String(), " done ") {
			<-time.After(2 * noteTime)
		}
	}))
	r.want(r.ask("POST", "/api/notify", `{}`, "Idempotency-Key", "k"), 202)
	if got := r.ask("POST", "/api/notify", `{}`, "Idempotency-Key", "k"); got.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("got %s, %v", got.text, got.header)
	}
}

// before is called before each command goes out.
type before func(redis.Cmder)

func (b before) DialHook(next redis.DialHook) redis.DialHook { return next }
func (b before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		b(cmd)
		return next(ctx, cmd)
	}
}
func (b before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A client that leaves before it is answered, and asks again, makes no second event.
func TestNotify_ClientLeaves(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want(r.ask("POST", "/api/notify", `{"channels":["push"]}`), 202)
	const n = 40
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			ctx, leave := context.WithCancel(soon(t))
			defer leave()
			req, err := http.NewRequestWithContext(ctx, "POST", r.url+"/api/notify", strings.NewReader(`{"channels":["push"]}`))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Idempotency-Key", fmt.Sprint("k", i))
			written := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { time.AfterFunc(time.Duration(i)*100*time.Microsecond, leave) }}
			res, err := http.DefaultClient.Do(req.WithContext(httptrace.WithClientTrace(ctx, written)))
			if err == nil {
				res.Body.Close()
			}
		})
	}
	wg.Wait()
	for i := range n {
		r.eventually(func() string {
			got := r.ask("POST", "/api/notify", `{"channels":["push"]}`, "Idempotency-Key", fmt.Sprint("k", i))
			if got.status != 202 {
				return got.text
			}
			return ""
		})
	}
	if got := r.events(r.names().Work(notify.Push)); got != n+1 {
		t.Errorf("%d in the queue, want %d", got, n+1)
	}
}
