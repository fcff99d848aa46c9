package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/broker"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
	"notifylab/internal/servers/serverstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.Main(m)) }

const limit = 2 * time.Minute // never passes when all is well

func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// A rig is one api in a namespace of its own, and its servers.
type rig struct {
	*testing.T
	amqp   string
	ns     notify.Namespace
	redis  idem.Client
	server *Server
	url    string
}

// newRig returns a rig on the servers that all tests share.
func newRig(t *testing.T) *rig {
	t.Helper()
	amqp, redis := serverstest.URLs(t)
	r := rigAt(t, amqp, redis)
	t.Cleanup(func() {
		if _, err := r.desk().Reset(soon(t)); err != nil {
			t.Error(err)
		}
	})
	return r
}

func rigAt(t *testing.T, amqp, redisURL string) *rig {
	t.Helper()
	client, err := idem.Dial(redisURL, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	r := &rig{T: t, amqp: amqp, ns: notify.Namespace(serverstest.Namespace(t)), redis: client}
	r.server = New(Config{
		Namespace: r.ns, Redis: client, Text: "hello", Timeout: 5 * time.Second,
		Modes: map[string]Mode{
			"default": {"7", notify.Channels(), ""}, "crash": {"7", []notify.Channel{notify.Push}, "before-ack"},
			"bad-token": {"999", []notify.Channel{notify.Push}, ""},
		},
		Dial: func(ctx context.Context, name string) (*broker.Conn, error) {
			return broker.Dial(ctx, broker.Config{URL: amqp, Name: name, Heartbeat: 10 * time.Second, Timeout: 4 * time.Second})
		},
		Topology: broker.Topology{Names: r.names(), Channels: notify.Channels(), Type: broker.Quorum},
		Declared: func(ctx context.Context, t broker.Topology) {
			_ = lab.NewNotes(client, r.ns, 0).Declared(ctx, string(t.Type), t.QueueNames()...)
		},
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := r.server.HTTPServer()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		if err := s.Shutdown(soon(t)); err != nil {
			t.Error(err)
		}
		<-served
		r.server.Close()
	})
	r.url = "http://" + ln.Addr().String()
	return r
}

func (r *rig) names() broker.Names { return broker.Names{Namespace: r.ns} }

// dial is a connection of the test's own.
func (r *rig) dial() *broker.Conn {
	r.Helper()
	c, err := broker.Dial(soon(r), broker.Config{URL: r.amqp, Name: "test", Heartbeat: 10 * time.Second, Timeout: limit})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { c.Close() })
	return c
}

func (r *rig) desk() Desk {
	r.Helper()
	dial := func(ctx context.Context) (*broker.Conn, error) { return r.server.Dial(ctx, "a test's replays") }
	return Desk{Redis: r.redis, Broker: r.dial(), Namespace: r.ns, Dial: dial, Who: "a test"}
}

func (r *rig) ready(queue string) int {
	r.Helper()
	n, _, ok, err := r.dial().Ready(soon(r), queue)
	if err != nil || !ok {
		r.Fatal(queue, ok, err)
	}
	return n
}

// events returns how many different notifications are in a queue. On a machine that is
// slow enough one that was posted again is in it twice, under the same id.
func (r *rig) events(queue string) int {
	r.Helper()
	c, err := amqp.Dial(r.amqp)
	if err != nil {
		r.Fatal(err)
	}
	defer c.Close()
	ch, err := c.Channel()
	if err != nil {
		r.Fatal(err)
	}
	ids := map[string]bool{}
	for all := 0; ; all++ {
		d, ok, err := ch.Get(queue, false)
		if err != nil {
			r.Fatal(err)
		}
		if !ok {
			if err := ch.Nack(0, true, true); err != nil { // all that was got goes back
				r.Fatal(err)
			}
			r.eventually(func() string {
				if n := r.ready(queue); n != all {
					return fmt.Sprintf("%d of %d are back", n, all)
				}
				return ""
			})
			return len(ids)
		}
		n, err := notify.Decode(d.Body)
		if err != nil {
			r.Fatal(err)
		}
		ids[n.ID] = true
	}
}

// fill leaves a full queue under that name.
func (r *rig) fill(queue string) {
	r.Helper()
	r.delete(queue)
	c, err := amqp.Dial(r.amqp)
	if err != nil {
		r.Fatal(err)
	}
	defer c.Close()
	ch, err := c.Channel()
	if err == nil {
		_, err = ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	}
	if err == nil {
		err = errors.Join(ch.Confirm(false), ch.Publish("", queue, false, false, amqp.Publishing{Body: []byte("full")}))
	}
	if err != nil {
		r.Fatal(err)
	}
	r.eventually(func() string {
		if r.ready(queue) == 0 {
			return "it is not there"
		}
		return ""
	})
}

func (r *rig) delete(queue string) {
	r.Helper()
	if err := r.dial().Delete(soon(r), queue); err != nil {
		r.Fatal(err)
	}
}

// park puts notifications among the dead letters of push, refused by a worker.
func (r *rig) park(all ...notify.Notification) {
	r.Helper()
	ctx := soon(r)
	topology := broker.Topology{Names: r.names(), Channels: []notify.Channel{notify.Push}, Type: broker.Quorum}
	c := r.dial()
	if err := c.Declare(ctx, topology); err != nil {
		r.Fatal(err)
	}
	p, err := c.Publisher(ctx, len(all))
	if err != nil {
		r.Fatal(err)
	}
	for _, n := range all {
		receipt, err := p.Start(ctx, broker.NewMessage(r.names(), notify.Push, n, "before-ack"))
		if err != nil {
			r.Fatal(err)
		}
		if fate, err := receipt.Wait(ctx); fate != broker.Confirmed {
			r.Fatal(fate, err)
		}
	}
	s, err := broker.Open(ctx, broker.SessionConfig{
		Config:   broker.Config{URL: r.amqp, Name: "test", Heartbeat: 10 * time.Second, Timeout: limit},
		Topology: topology, Prefetch: 100, PublishTimeout: limit,
	})
	if err != nil {
		r.Fatal(err)
	}
	for range all {
		select {
		case d := <-s.Deliveries():
			reason := "refused"
			n, err := notify.Decode(d.Body)
			if err != nil || n.Text == "odd" {
				reason = "malformed"
			}
			if err := s.Park(ctx, d, notify.Failure{Reason: reason, Error: "410 Gone", Attempts: 3, At: time.Unix(1700000000, 0), Worker: "push-worker-1"}); err != nil {
				r.Fatal(err)
			}
			s.Ack(d)
		case <-ctx.Done():
			r.Fatal("no delivery")
		}
	}
	s.Close(ctx)
	r.eventually(func() string {
		if n := r.ready(r.names().Work(notify.Push)); n > 0 {
			return fmt.Sprint(n, " are left in the work queue")
		}
		return ""
	})
}

// note is a notification to user 7.
func note(id string) notify.Notification {
	return notify.Notification{ID: id, User: "7", Text: "hello"}
}
