package idem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/notify"
	"notifylab/internal/servers/serverstest"
)

// slotHolder makes this test binary a worker that only holds a slot, under the
// state directory that it names.
const slotHolder = "IDEM_TEST_HOLD_SLOT_IN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(slotHolder); dir != "" {
		os.Exit(holdSlot(dir))
	}
	os.Exit(serverstest.Main(m))
}

// holdSlot prints its owner, and gives the slot up when its standard input ends.
func holdSlot(dir string) int {
	slot, err := TakeSlot(dir, "", notify.Push)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(slot.Owner())
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := slot.Free(); err != nil {
		return 1
	}
	return 0
}

const (
	testLease     = 100 * time.Second
	testRetention = 1000 * time.Second
)

var hello = notify.Notification{ID: "n-1", User: "7", Text: "hello"}

// soon returns a context that ends only when something is wrong.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// dial returns a client of the Redis at url, and of the tests' own if that is "". It is
// like [Dial]'s but, if that is one server, has patience: a Redis that stalls for a
// moment is not what a test is about. For one that is, there is dialURL.
func dial(t testing.TB, url string) Client {
	t.Helper()
	if url == "" {
		_, url = serverstest.URLs(t)
	}
	c, err := Dial(url, 16)
	if err != nil {
		t.Fatal(err)
	}
	if to, err := parse(url); err == nil && to.one != nil {
		o := *c.(*redis.Client).Options()
		_ = c.Close()
		const patience = 20 * time.Second
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = patience, patience, patience, 2*patience
		o.Dialer = nil // it has the first one's time-out
		c = redis.NewClient(&o)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// takeSlot takes a slot of push that is free again when the test ends.
func takeSlot(t testing.TB, dir string) *Slot {
	t.Helper()
	s, err := TakeSlot(dir, "", notify.Push)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Free() })
	return s
}

// A lab is a namespace in Redis and a state directory, for some workers.
type lab struct {
	t     testing.TB
	redis Client // past every proxy, to look and to prepare
	ns    notify.Namespace
	dir   string
}

func newLab(t testing.TB) *lab { t.Helper(); return newLabAt(t, "") }

// newLabAt is newLab on the Redis at url.
func newLabAt(t testing.TB, url string) *lab {
	t.Helper()
	l := &lab{t: t, redis: dial(t, url), ns: notify.Namespace(serverstest.Namespace(t)), dir: t.TempDir()}
	for _, script := range []string{completeLua, releaseLua, takeLua} {
		// Known by their hashes, so that every call of one is one command.
		if err := l.redis.ScriptLoad(soon(t), script).Err(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		ctx := context.Background()
		var errs []error
		err := each(ctx, l.redis, l.ns.Key("*"), func(keys []string) error {
			for _, key := range keys {
				errs = append(errs, l.redis.Del(ctx, key).Err())
			}
			return errors.Join(errs...)
		})
		if err != nil {
			t.Errorf("clean up %s: %v", l.ns, err)
		}
	})
	return l
}

// worker is another worker in the lab, which reaches Redis through c.
func (l *lab) worker(c Client) *Store {
	l.t.Helper()
	return NewStore(c, l.ns, takeSlot(l.t, l.dir), testLease, testRetention)
}

// dead is the owner of a worker that was here.
func (l *lab) dead() Owner {
	l.t.Helper()
	s := takeSlot(l.t, l.dir)
	if err := s.Free(); err != nil {
		l.t.Fatal(err)
	}
	return s.Owner()
}

// put writes a record as it is. A value of "" removes it.
func (l *lab) put(key, value string, ttl time.Duration) {
	l.t.Helper()
	var err error
	if value == "" {
		err = l.redis.Del(soon(l.t), key).Err()
	} else {
		err = l.redis.Set(soon(l.t), key, value, ttl).Err()
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// get returns a record and its time to live, and "" if there is none.
func (l *lab) get(key string) (string, time.Duration) {
	l.t.Helper()
	if n, err := l.redis.Exists(soon(l.t), key).Result(); err != nil {
		l.t.Fatal(err)
	} else if n == 0 {
		return "", 0
	}
	value, err := l.redis.Get(soon(l.t), key).Result()
	if err != nil {
		l.t.Fatal(err)
	}
	ttl, err := l.redis.PTTL(soon(l.t), key).Result()
	if err != nil {
		l.t.Fatal(err)
	}
	return value, ttl
}

// is checks a record's value and that its time to live is what was promised, less
// what the test has taken, and never more.
func (l *lab) is(key, value string, ttl time.Duration) {
	l.t.Helper()
	got, left := l.get(key)
	if got != value {
		l.t.Errorf("record: want %q, got %q", value, got)
	}
	if value != "" && (left > ttl || left < ttl-40*time.Second) {
		l.t.Errorf("time to live: want at most %v, got %v", ttl, left)
	}
}

// with returns a record like r in another state.
func (r Record) with(s State) Record { r.State = s; return r }

func attempt(t testing.TB, what string, try func(context.Context) (Verdict, Record, error), want Verdict) Record {
	t.Helper()
	got, found, err := try(soon(t))
	if err != nil || got != want {
		t.Fatalf("%s: want %v, got %v (%v), %v", what, want, got, found, err)
	}
	return found
}

func settle(t testing.TB, what string, do func(context.Context) (bool, error), want bool) {
	t.Helper()
	if ours, err := do(soon(t)); err != nil || ours != want {
		t.Fatalf("%s: want ours %v, got %v, %v", what, want, ours, err)
	}
}

func (v Verdict) String() string {
	return [...]string{"acquired", "recovered", "duplicate", "conflict", "busy"}[v]
}
