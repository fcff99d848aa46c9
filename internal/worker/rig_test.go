package worker_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
	"notifylab/internal/servers/serverstest"
)

// A rig is queues, records and a provider of a test's own, on servers that it
// shares, and the history of what its workers said.
type rig struct {
	options
	t        *testing.T
	ctx      context.Context // ends only when something is wrong
	conn     *broker.Conn
	out      *broker.Publisher
	redis    idem.Client
	provider *provider.Server
	history  *event.History
}

// limit is how long a test may take, one that starts servers anew, too. It never
// passes when all is well, however busy the machine is.
const limit = 4 * time.Minute

// newRig makes a rig. change, if not nil, sets options; an AMQP or Redis URL in
// them stands for the shared servers'.
func newRig(t *testing.T, change func(*options)) *rig {
	t.Helper()
	r := &rig{t: t, history: new(event.History), options: options{
		Namespace: notify.Namespace(serverstest.Namespace(t)), State: t.TempDir(),
		Queue: broker.Quorum, Prefetch: 16, Concurrency: 16,
		Attempts: 3, MaxCrashes: 3, Backoff: []time.Duration{20 * time.Millisecond, 40 * time.Millisecond},
		SendTimeout: 30 * time.Second, Lease: time.Minute, Heartbeat: 10 * time.Second,
	}}
	if change != nil {
		change(&r.options)
	}
	if r.AMQP == "" {
		r.AMQP, r.Redis = serverstest.URLs(t)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	r.ctx = ctx

	r.provider = provider.New(provider.Options{})
	running, err := r.provider.Listen("")
	r.ok(err)
	t.Cleanup(func() { _ = running.Close(expired()) })
	r.Provider = running.URL()
	r.Routes = map[string]string{"cut": r.cutting(), "nowhere": "http://127.0.0.1:1"}

	r.redis, err = idem.Dial(r.Redis, 4)
	r.ok(err)
	if one, ok := r.redis.(*redis.Client); ok {
		r.redis = one.WithTimeout(20 * time.Second) // a Redis that stands still for a moment ends no test
	}
	r.connect()
	t.Cleanup(func() { r.clean(); _ = r.conn.Close(); _ = r.redis.Close() })
	r.ok(r.conn.Declare(ctx, r.topology()))
	t.Cleanup(func() {
		if t.Failed() {
			for _, e := range r.history.All() {
				t.Logf("%s", event.Encode(e))
			}
		}
	})
	return r
}

// connect opens the test's own connection, and a publisher on it.
func (r *rig) connect() {
	r.t.Helper()
	var err error
	r.conn, err = broker.Dial(r.ctx, broker.Config{URL: r.AMQP, Name: "test", Heartbeat: 10 * time.Second, Timeout: limit})
	r.ok(err)
	r.out, err = r.conn.Publisher(context.WithoutCancel(r.ctx), 1000)
	r.ok(err)
}

func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// cutting is a door to the provider that closes before the answer comes out.
func (r *rig) cutting() string {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		q.Body = io.NopCloser(strings.NewReader(string(body)))
		r.provider.ServeHTTP(httptest.NewRecorder(), q)
		panic(http.ErrAbortHandler)
	}))
	s.Config.ErrorLog = nil
	r.t.Cleanup(s.Close)
	return s.URL
}

// clean leaves nothing behind on shared servers. A server that a test has of its
// own may be gone.
func (r *rig) clean() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if r.conn.Delete(ctx, r.topology().QueueNames()...) != nil {
		return
	}
	if keys, err := r.redis.Keys(ctx, r.Namespace.Key("*")).Result(); err == nil && len(keys) > 0 {
		r.redis.Del(ctx, keys...)
	}
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// set switches the lab's settings: all that are not named are off.
func (r *rig) set(names ...string) {
	r.t.Helper()
	on := map[string]bool{}
	for _, field := range lab.Fields() {
		on[field] = false
	}
	for _, name := range names {
		on[name] = true
	}
	r.ok(lab.NewSettings(r.redis, r.Namespace).Set(r.ctx, on))
}

// The settings that tests need most.
func (r *rig) setRecord() { r.t.Helper(); r.set("idempotency") }
func (r *rig) setLease()  { r.t.Helper(); r.set("idempotency", "claim-lease") }

// note7 is a notification for user 7.
func note7(id string) notify.Notification {
	return notify.Notification{ID: id, User: "7", Text: "hello"}
}

// publish queues n, with a crash point armed or none.
func (r *rig) publish(n notify.Notification, crash string) {
	r.t.Helper()
	r.publishAll(broker.NewMessage(r.topology().Names, notify.Push, n, crash))
}

func (r *rig) publishAll(messages ...broker.Message) {
	r.t.Helper()
	var receipts []*broker.Receipt
	for _, m := range messages {
		receipt, err := r.out.Start(r.ctx, m)
		r.ok(err)
		receipts = append(receipts, receipt)
	}
	for i, receipt := range receipts {
		if fate, err := receipt.Wait(r.ctx); fate != broker.Confirmed {
			r.t.Fatalf("publish %s: %s, %v", messages[i].ID, fate, err)
		}
	}
}

// await returns the first event that match accepts, past or to come.
func (r *rig) await(what string, match func(event.Event) bool) event.Event {
	r.t.Helper()
	return r.awaitFrom(0, what, match)
}

func (r *rig) awaitFrom(n int, what string, match func(event.Event) bool) event.Event {
	r.t.Helper()
	e, err := r.history.AwaitFrom(r.ctx, n, match)
	if err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
	return e
}

func (r *rig) awaitKind(k event.Kind, id string) event.Event {
	r.t.Helper()
	return r.await(fmt.Sprintf("%s of %s", k, id), is(k, id))
}

// is accepts events of one kind about one notification.
func is(k event.Kind, id string) func(event.Event) bool {
	return func(e event.Event) bool { return e.Kind == k && e.ID == id }
}

// isOver accepts what a worker says of the end of its session with RabbitMQ.
func isOver(e event.Event) bool {
	return e.Kind == event.Disconnect && strings.HasPrefix(e.Reason, "the session with RabbitMQ is over")
}

// count returns how many events match.
func (r *rig) count(match func(event.Event) bool) int {
	n := 0
	for _, e := range r.history.All() {
		if match(e) {
			n++
		}
	}
	return n
}

// awaitLedger waits until the provider's ledger is as it should be.
func (r *rig) awaitLedger(ok func(*provider.Ledger) bool) {
	r.t.Helper()
	if err := r.provider.Await(r.ctx, ok); err != nil {
		r.t.Fatalf("%v\n%+v", err, r.provider.Calls())
	}
}

// awaitHeld waits until the provider has a call that it keeps waiting.
func (r *rig) awaitHeld(id string) {
	r.t.Helper()
	r.awaitLedger(func(l *provider.Ledger) bool { return l.Held(id, notify.Push) > 0 })
}

// accepted checks how often the provider accepted a notification.
func (r *rig) accepted(id string, want int) {
	r.t.Helper()
	if got := r.provider.Accepted(id, notify.Push); got != want {
		r.t.Errorf("%s: accepted %d times, want %d", id, got, want)
	}
}
