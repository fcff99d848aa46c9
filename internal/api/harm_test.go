package api

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"notifylab/internal/notify"
	"notifylab/internal/servers"
	"notifylab/internal/servers/serverstest"
)

// One pair is harmed by one test after another; the api is never started again.
func TestServersAway(t *testing.T) {
	t.Parallel()
	pair := serverstest.Own(t)
	r := rigAt(t, pair.AMQPURL, pair.RedisURL)
	r.park(note("a"), note("b"), note("c"))
	r.want(r.ask("POST", "/api/notify", `{}`), 202)
	for _, test := range []struct {
		name string
		run  func(*rig, *servers.Pair)
	}{
		{"an alarm", alarm}, {"RabbitMQ stands still", standsStill}, {"RabbitMQ is stopped", brokerStopped}, {"RabbitMQ is killed in mid-flight", killed}, {"Redis is stopped", redisStopped},
	} {
		t.Run(test.name, func(t *testing.T) {
			rig := *r
			rig.T = t
			test.run(&rig, pair)
		})
	}
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// inTime is how long an answer may take, [answerTime], and what a busy machine may
// add.
const inTime = answerTime + 4*time.Second

// away asks everything that needs the broker, all at once: each is a 503 in time.
func (r *rig) away(says string, requests ...string) {
	r.Helper()
	var wg sync.WaitGroup
	for _, request := range requests {
		method, path, _ := strings.Cut(request, " ")
		body := ""
		if path == "/api/notify" {
			body = `{"id":"away"}`
		}
		for range 5 {
			wg.Go(func() {
				began := time.Now()
				got, err := r.try(method, path, body)
				took := time.Since(began)
				if err != nil || got.status != 503 || got.header.Get("Retry-After") == "" || took > inTime || !strings.Contains(got.text, says) {
					r.Errorf("%s after %v: %d %s %v, want %s", request, took, got.status, got.text, err, says)
				}
				if body != "" && (got.body["id"] != "away" || len(got.body["channels"].(object)) != 2) {
					r.Errorf("%s", got.text)
				}
			})
		}
	}
	wg.Wait()
}

// back waits until the api can publish again.
func (r *rig) back() {
	r.Helper()
	r.eventually(func() string {
		if got := r.ask("POST", "/api/notify", `{"id":"back"}`); got.status != 202 {
			return got.text
		}
		return ""
	})
	r.want(r.ask("GET", "/readyz", ""), 200)
}

const blocked = "the broker blocks publishers: low on memory"

// Under an alarm nothing is said to be queued, and what can be looked at can be.
func alarm(r *rig, pair *servers.Pair) {
	ctl := func(mark string) {
		_, err := pair.Rabbitmqctl(soon(r), "set_vm_memory_high_watermark", mark)
		r.ok(err)
	}
	ctl("0.0000001")
	// The first to publish finds it out; RabbitMQ may take one more of a connection.
	r.eventually(func() string {
		var got reply
		r.within(inTime, func() { got = r.ask("POST", "/api/notify", `{"id":"first"}`) })
		if got.status != 503 {
			return got.text
		}
		return ""
	})
	r.away(blocked, "POST /api/notify", "GET /readyz")
	var got reply
	r.within(2*inTime, func() { got = r.ask("POST", dlq+"/replay", "") }) // it may take that for each thing that it asks of the broker
	r.want(got, 503)
	replayed := int(got.body["done"].(object)["replayed"].(float64))
	if left := len(r.letters("")); replayed > 1 || left != 3-replayed {
		r.Errorf("%d left of 3: %s", left, got.text)
	}
	if got = r.ask("GET", "/api/lab/queues", ""); got.status != 200 {
		r.Error(got.text)
	}
	ctl("0.4")
	r.back()
}

func standsStill(r *rig, pair *servers.Pair) {
	r.want(r.ask("GET", "/api/lab/queues", ""), 200)
	r.ok(pair.Suspend(soon(r), servers.RabbitMQ))
	r.away("", "POST /api/notify", "GET /api/lab/queues", "GET "+dlq, "POST "+dlq+"/replay", "POST /api/lab/reset")
	r.ok(pair.Resume(context.Background(), servers.RabbitMQ))
	r.back()
}

func brokerStopped(r *rig, pair *servers.Pair) {
	r.ok(pair.Stop(soon(r), servers.RabbitMQ))
	r.away("", "POST /api/notify", "GET /readyz", "GET /api/lab/queues", "GET "+dlq, "DELETE "+dlq, "POST "+dlq+"/replay", "GET /api/notifications/n")
	r.away("RabbitMQ is away: RabbitMQ does not answer at ", "POST /api/notify")
	r.want(r.ask("GET", "/healthz", ""), 200)
	r.want(r.ask("GET", "/api/lab/flags", ""), 200)
	r.want(r.ask("GET", "/api/lab/keys", ""), 200)
	r.ok(pair.Start(r.Context(), servers.RabbitMQ))
	r.back()
}

// For every 202 of a run in which the broker dies the messages are there.
// (knative-extensions/eventing-rabbitmq#334)
func killed(r *rig, pair *servers.Pair) {
	push, email := r.names().Work(notify.Push), r.names().Work(notify.Email)
	before := map[string]int{push: r.ready(push), email: r.ready(email)}
	var wg sync.WaitGroup
	var mu sync.Mutex
	confirmed, answered, half := 0, 0, make(chan struct{})
	for range 8 {
		wg.Go(func() {
			for range 50 {
				began := time.Now()
				got, err := r.try("POST", "/api/notify", `{}`)
				if took := time.Since(began); err != nil || got.status != 202 && got.status != 503 || took > inTime {
					r.Error(got.status, got.text, err, took)
				}
				mu.Lock()
				if got.status == 202 {
					confirmed++
				}
				if answered++; answered == 200 {
					close(half)
				}
				mu.Unlock()
			}
		})
	}
	<-half
	r.ok(pair.Kill(soon(r), servers.RabbitMQ))
	wg.Wait()
	r.ok(pair.Start(r.Context(), servers.RabbitMQ))
	r.eventually(func() string {
		for _, queue := range []string{push, email} {
			n, _, ok, err := r.dial().Ready(soon(r), queue)
			if n -= before[queue]; n < confirmed || err != nil {
				return fmt.Sprintf("%d in %s of %d confirmed, %v, %v", n, queue, confirmed, ok, err)
			}
		}
		return ""
	})
	if confirmed < 100 || confirmed >= 400 {
		r.Errorf("%d confirmed: it was not killed in mid-flight", confirmed)
	}
	r.back()
}

// Without Redis events are published; what needs Redis says so.
func redisStopped(r *rig, pair *servers.Pair) {
	r.ok(pair.Stop(soon(r), servers.Redis))
	r.within(inTime, func() { r.want(r.ask("POST", "/api/notify", `{}`), 202) })
	var wg sync.WaitGroup
	for _, request := range []string{"GET /api/lab/flags", "PUT /api/lab/flags", "GET /api/lab/keys", "GET /api/lab/events", "GET /api/lab/queues", "GET /api/notifications/n", "GET /readyz", "POST " + dlq + "/replay", "POST /api/notify"} {
		method, path, _ := strings.Cut(request, " ")
		wg.Go(func() {
			body := map[string]string{"PUT": `{"idempotency":true,"claimLease":true}`, "POST /api/notify": `{}`}
			began := time.Now()
			got, err := r.try(method, path, body[method]+body[request], "Idempotency-Key", "k")
			if took := time.Since(began); err != nil || got.status != 503 || got.header.Get("Retry-After") == "" || took > inTime {
				r.Errorf("%s after %v: %d %s %v", request, took, got.status, got.text, err)
			}
		})
	}
	wg.Wait()
	r.ok(pair.Start(r.Context(), servers.Redis))
	r.back()
}
