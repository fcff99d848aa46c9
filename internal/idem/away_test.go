package idem

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"notifylab/internal/notify"
	"notifylab/internal/servers"
	"notifylab/internal/servers/serverstest"
)

// calls are all that talk to Redis, each on a record of its own.
func (s *Store) calls() map[string]func(context.Context) error {
	claim := func(name string) *Claim {
		return s.Claim(notify.Notification{ID: name, User: "7", Text: "hello"}, notify.Push, true)
	}
	return map[string]func(context.Context) error{
		"try":       func(ctx context.Context) error { _, _, err := claim("try").Try(ctx); return err },
		"again":     func(ctx context.Context) error { _, _, err := claim("again").Again(ctx); return err },
		"complete":  func(ctx context.Context) error { _, err := claim("complete").Complete(ctx); return err },
		"release":   func(ctx context.Context) error { _, err := claim("release").Release(ctx); return err },
		"remaining": func(ctx context.Context) error { _, err := claim("r").Remaining(ctx); return err },
		"still":     func(ctx context.Context) error { _, err := claim("s").Still(ctx, Record{}); return err },
		"count":     func(ctx context.Context) error { _, err := s.CountCrash(ctx, hello, notify.Push); return err },
		"forget":    func(ctx context.Context) error { return s.ForgetCrashes(ctx, hello, notify.Push) },
		"version":   func(ctx context.Context) error { _, err := Version(ctx, s.client); return err },
	}
}

func timed(ctx context.Context, call func(context.Context) error) (time.Duration, error) {
	start := time.Now()
	err := call(ctx)
	return time.Since(start), err
}

// slack is what a busy machine may add.
const slack = 3 * time.Second

// TestRedisAway takes one Redis of its own through all that can happen to it.
// (redis/go-redis#2145)
func TestRedisAway(t *testing.T) {
	t.Parallel()
	pair := serverstest.Own(t)
	redis, looks := dialURL(t, pair.RedisURL, 16), dial(t, pair.RedisURL)
	admin := func(t *testing.T, args ...any) {
		t.Helper()
		if err := looks.Do(soon(t), args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	do := func(t *testing.T, what func(context.Context, servers.Server) error) {
		t.Helper()
		if err := what(soon(t), servers.Redis); err != nil {
			t.Fatal(err)
		}
	}
	worker := func(t *testing.T) *Store {
		return NewStore(redis, notify.Namespace(serverstest.Namespace(t)), takeSlot(t, t.TempDir()), testLease, testRetention)
	}
	ping := func(c Client) *UnreachableError {
		var u *UnreachableError
		if errors.As(Ping(soon(t), c, pair.RedisURL), &u) {
			return u
		}
		return nil
	}

	t.Run("forgotten scripts", func(t *testing.T) {
		s := worker(t)
		for range 2 {
			admin(t, "SCRIPT", "FLUSH")
			for what, call := range s.calls() {
				if err := call(soon(t)); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
	})

	t.Run("no memory", func(t *testing.T) {
		s := worker(t)
		mine, fresh := s.Claim(hello, notify.Push, true), s.Claim(hello, notify.Email, true)
		attempt(t, "before", mine.Try, Acquired)
		admin(t, "CONFIG", "SET", "maxmemory", "1")
		if v, _, err := fresh.Try(soon(t)); err == nil || !strings.Contains(err.Error(), "OOM") {
			t.Errorf("try: want OOM, got %v, %v", v, err)
		}
		if _, err := mine.Complete(soon(t)); err == nil || !strings.Contains(err.Error(), "OOM") {
			t.Errorf("complete: want OOM, got %v", err)
		}
		settle(t, "release, which needs none", mine.Release, true)
		admin(t, "CONFIG", "SET", "maxmemory", "0")
		attempt(t, "after", fresh.Try, Acquired)
	})

	t.Run("a replica", func(t *testing.T) {
		c := worker(t).Claim(hello, notify.Push, true)
		admin(t, "REPLICAOF", "127.0.0.1", "1")
		if v, _, err := c.Try(soon(t)); err == nil || !strings.Contains(err.Error(), "READONLY") {
			t.Errorf("try: want READONLY, got %v, %v", v, err)
		}
		admin(t, "REPLICAOF", "NO", "ONE")
		attempt(t, "after", c.Try, Acquired)
	})

	t.Run("a password", func(t *testing.T) {
		admin(t, "CONFIG", "SET", "requirepass", "S3cr3t")
		if u := ping(dial(t, pair.RedisURL)); u == nil || !u.Refused() || !strings.Contains(u.Error(), "NOAUTH") {
			t.Errorf("want a refusal, got %v", u)
		}
		if u := ping(dial(t, strings.Replace(pair.RedisURL, "://", "://:S3cr3t@", 1))); u != nil {
			t.Error(u)
		}
		admin(t, "CONFIG", "SET", "requirepass", "")
	})

	t.Run("no more clients", func(t *testing.T) {
		admin(t, "CONFIG", "SET", "maxclients", "1")
		if u := ping(dial(t, pair.RedisURL)); u == nil || u.Refused() {
			t.Errorf("want an error that passes, got %v", u)
		}
		admin(t, "CONFIG", "SET", "maxclients", "1000")
	})

	t.Run("suspended", func(t *testing.T) {
		s := worker(t)
		mine := s.Claim(hello, notify.Push, true)
		attempt(t, "before", mine.Try, Acquired)
		do(t, pair.Suspend)
		var wg sync.WaitGroup
		for what, call := range s.calls() {
			wg.Go(func() {
				if took, err := timed(soon(t), call); err == nil || took > 2*Timeout+slack {
					t.Errorf("%s took %v: %v", what, took, err)
				}
				// With a deadline it ends then, long before the client's own time-out.
				// Of three, since the machine may be busy.
				quickest := time.Hour
				for range 3 {
					ctx, cancel := context.WithTimeout(soon(t), Timeout/10)
					took, err := timed(ctx, call)
					cancel()
					if err == nil {
						t.Errorf("%s: no error", what)
					}
					quickest = min(quickest, took)
				}
				if quickest >= Timeout {
					t.Errorf("%s took %v, with a deadline of %v", what, quickest, Timeout/10)
				}
			})
		}
		wg.Wait()
		start := time.Now()
		if u := ping(redis); u == nil || u.Refused() || time.Since(start) > 2*Timeout+slack {
			t.Errorf("ping: %v after %v", u, time.Since(start))
		}
		if left := mine.Left(); left > testLease-2*time.Second {
			t.Errorf("%v is left", left)
		}
		do(t, pair.Resume)
		settle(t, "complete", mine.Complete, true)
	})

	t.Run("killed and started", func(t *testing.T) {
		s := worker(t)
		mine := s.Claim(hello, notify.Push, true)
		attempt(t, "before", mine.Try, Acquired)
		do(t, pair.Kill)
		for what, call := range s.calls() {
			start := time.Now()
			if err := call(soon(t)); err == nil || time.Since(start) > 2*Timeout+slack {
				t.Errorf("%s: %v after %v", what, err, time.Since(start))
			}
		}
		if u := ping(redis); u == nil || !strings.HasSuffix(u.Error(), ": connection refused") {
			t.Errorf("ping: %v", u)
		}
		do(t, pair.Start)
		deadline := soon(t)
		for ping(redis) != nil && deadline.Err() == nil {
			<-time.After(10 * time.Millisecond)
		}
		attempt(t, "it remembers", mine.Try, Acquired)
		attempt(t, "and others see it", s.Claim(hello, notify.Push, true).Try, Busy)
		settle(t, "complete", mine.Complete, true)
	})
}
