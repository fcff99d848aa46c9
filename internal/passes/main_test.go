package passes

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
	"notifylab/internal/servers/serverstest"
)

// readerSpec makes this test binary a process with one member, as it says.
const readerSpec = "PASSES_TEST_READER"

func TestMain(m *testing.M) {
	if text := os.Getenv(readerSpec); text != "" {
		os.Exit(runReader(text))
	}
	os.Exit(serverstest.Main(m))
}

// A spec is one reader of the tests: what cmd knows from its flags.
type spec struct {
	AMQP, Redis string
	Log         Log
	Group, Name string
	CommitFirst bool
	TTL, Beat   time.Duration
	Slow        time.Duration // how long a handler takes
}

// runReader is a reader process: a thin wrapper around a member. Its handler says
// sent, which is what the world outside gets to know.
func runReader(text string) int {
	var s spec
	fail := func(err error) int { fmt.Fprintln(os.Stderr, err); return 1 }
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	client, err := idem.Dial(s.Redis, 4)
	if err != nil {
		return fail(err)
	}
	defer client.Close()
	var writing sync.Mutex
	emit := func(e event.Event) {
		writing.Lock()
		defer writing.Unlock()
		_, _ = os.Stdout.Write(event.Encode(e))
	}
	err = NewMember(Config{
		Log: s.Log, Group: NewGroup(client, s.Log, s.Group, time.Hour), Name: s.Name,
		Open: func(ctx context.Context) (*broker.Conn, error) {
			return broker.Dial(ctx, broker.Config{URL: s.AMQP, Name: "test " + s.Name, Heartbeat: 10 * time.Second, Timeout: limit})
		},
		Handle: func(ctx context.Context, r Record) error {
			pause(ctx, s.Slow)
			emit(event.Event{
				Time: time.Now(), Kind: event.Sent, Source: s.Name, PID: os.Getpid(), ID: r.ID, User: r.User, Text: r.Text,
				Membership: event.Membership{Group: s.Group}, Position: &event.Position{Partition: r.Partition, Offset: r.Offset},
			})
			return nil
		},
		Emit: emit, CommitFirst: s.CommitFirst, TTL: s.TTL, Beat: s.Beat, Prefetch: 10, Backoff: 20 * time.Millisecond,
		CrashPoints: true, Marks: lab.NewMarks(client, s.Log.Namespace),
		Die: func() {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			os.Exit(137)
		},
		Suspend: func() {
			continued := make(chan os.Signal, 1)
			signal.Notify(continued, unix.SIGCONT)
			defer signal.Stop(continued)
			_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
			<-continued
		},
	}).Run(ctx)
	if err != nil {
		return fail(err)
	}
	return 0
}

const limit = 2 * time.Minute // never passes when all is well

// soon returns a context that ends only when something is wrong.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// A place is a namespace with a log, on the servers that all tests share. All that is
// in it is deleted in the end.
type place struct {
	t           *testing.T
	amqp, redis string
	log         Log
	client      idem.Client
	conn        *broker.Conn
	producer    *Producer
}

func newPlace(t *testing.T, partitions int) *place {
	t.Helper()
	amqpURL, redisURL := serverstest.URLs(t)
	p := &place{t: t, amqp: amqpURL, redis: redisURL, log: Log{notify.Namespace(serverstest.Namespace(t)), partitions}}
	var err error
	if p.client, err = idem.Dial(redisURL, 16); err != nil {
		t.Fatal(err)
	}
	p.conn = p.dial()
	if err := p.conn.DeclareStreams(soon(t), p.log.Streams()...); err != nil {
		t.Fatal(err)
	}
	p.producer, err = NewProducer(context.Background(), p.conn, p.log, "producer", func(event.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := p.dial().Delete(ctx, p.log.Queues()...); err != nil {
			t.Error(err)
		}
		if _, err := idem.Forget(ctx, p.client, p.log.Namespace); err != nil {
			t.Error(err)
		}
		_ = p.client.Close()
	})
	return p
}

// newRedis returns a place without a log: for what only Redis knows.
func newRedis(t *testing.T, partitions int) *place {
	t.Helper()
	_, redisURL := serverstest.URLs(t)
	p := &place{t: t, redis: redisURL, log: Log{notify.Namespace(serverstest.Namespace(t)), partitions}}
	var err error
	if p.client, err = idem.Dial(redisURL, 64); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := idem.Forget(context.Background(), p.client, p.log.Namespace); err != nil {
			t.Error(err)
		}
		_ = p.client.Close()
	})
	return p
}

func (p *place) dial() *broker.Conn {
	p.t.Helper()
	c, err := broker.Dial(soon(p.t), broker.Config{URL: p.amqp, Name: "test", Heartbeat: 10 * time.Second, Timeout: limit})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	return c
}

// posts makes n events of n/each passes, from the number from on: e7 of pass-7%passes.
func posts(from, n int, passes int) (all []Post) {
	for i := from; i < from+n; i++ {
		all = append(all, Post{Expired: Expired{
			ID: fmt.Sprint("e", i), Pass: fmt.Sprint("pass-", i%passes), User: fmt.Sprint(i), Text: "your pass has expired",
		}})
	}
	return all
}

func (p *place) publish(all ...Post) {
	p.t.Helper()
	if err := p.producer.Publish(soon(p.t), all...); err != nil {
		p.t.Fatal(err)
	}
}

// partitionsOf says where events are, in their order, from the log itself.
func (p *place) contents() [][]string {
	p.t.Helper()
	all := make([][]string, p.log.Partitions)
	for i, queue := range p.log.Queues() {
		entries, err := p.conn.ReadAll(soon(p.t), queue, limit/2)
		if err != nil {
			p.t.Fatal(err)
		}
		for _, e := range entries {
			all[i] = append(all[i], e.ID)
		}
	}
	return all
}

func (p *place) group(name string) *Group { return NewGroup(p.client, p.log, name, time.Hour) }

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

func ids(all []Post) (ids []string) {
	for _, p := range all {
		ids = append(ids, p.ID)
	}
	slices.Sort(ids)
	return ids
}
