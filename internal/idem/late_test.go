package idem

import (
	"testing"
	"time"

	"notifylab/internal/notify"
)

// A client that lost the reply to its claim asks again by itself, and is not
// refused by its own record. (redis/go-redis#2985)
func TestTry_LostReply(t *testing.T) {
	t.Parallel()
	for _, leased := range []bool{true, false} {
		l, p := newLab(t), newProxy(t)
		c := l.worker(dial(t, p.url)).Claim(hello, notify.Push, leased)
		p.next("set", fate{lose: true})
		attempt(t, "try", c.Try, Acquired)
		ttl := testLease
		if !leased {
			ttl = testRetention
		}
		l.is(c.Key(), c.Mine().String(), ttl)
		if n := p.count("set"); n != 2 {
			t.Errorf("want the claim twice, got it %d times", n)
		}
	}
}

// A claim that failed for its caller may have been written. Then it is his when
// he asks again, and its lease counts from when he first did.
func TestTry_AfterAnErrorTheLeaseCountsFromTheFirstTry(t *testing.T) {
	t.Parallel()
	l, p := newLab(t), newProxy(t)
	c := l.worker(dialURL(t, p.url, 16)).Claim(hello, notify.Push, true)
	p.next("set", fate{deaf: true})
	p.next("set", fate{deaf: true})
	start := time.Now()
	if v, _, err := c.Try(soon(t)); err == nil {
		t.Fatalf("want an error, got %v", v)
	}
	failed := time.Since(start)
	attempt(t, "try again", c.Try, Acquired)
	_, inRedis := l.get(c.Key())
	if left := c.Left(); left > testLease-failed || left > inRedis+2*time.Second {
		t.Errorf("%v after the first try %v of the lease is left, and %v in Redis", failed, left, inRedis)
	}
	attempt(t, "again", c.Again, Acquired)
	if left := c.Left(); left < testLease-failed {
		t.Errorf("want a whole lease, got %v", left)
	}
}

func TestRecover_LostReply(t *testing.T) {
	t.Parallel()
	l, p := newLab(t), newProxy(t)
	dead := Record{State: Pending, Owner: l.dead(), Nonce: "theirs", Fingerprint: notify.Fingerprint(hello)}
	c := l.worker(dial(t, p.url)).Claim(hello, notify.Push, true)
	l.put(c.Key(), dead.String(), testRetention)
	p.next("evalsha", fate{lose: true})
	if found := attempt(t, "try", c.Try, Recovered); found != dead {
		t.Errorf("want %v, got %v", dead, found)
	}
	l.is(c.Key(), c.Mine().String(), testLease)
	if _, inRedis := l.get(c.Key()); c.Left() > inRedis+time.Second {
		t.Errorf("%v of the lease is left, in Redis %v", c.Left(), inRedis)
	}
}

func TestScripts_LostReply(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*Claim) (ours func(*testing.T), value string, ttl time.Duration){
		"again": func(c *Claim) (func(*testing.T), string, time.Duration) {
			return func(t *testing.T) { attempt(t, "again", c.Again, Acquired) }, c.Mine().String(), testLease
		},
		"complete": func(c *Claim) (func(*testing.T), string, time.Duration) {
			return func(t *testing.T) { settle(t, "complete", c.Complete, true) }, c.Mine().with(Done).String(), testRetention
		},
		"release": func(c *Claim) (func(*testing.T), string, time.Duration) {
			return func(t *testing.T) { settle(t, "release", c.Release, true) }, "", 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, p := newLab(t), newProxy(t)
			c := l.worker(dial(t, p.url)).Claim(hello, notify.Push, true)
			attempt(t, "try", c.Try, Acquired)
			ours, value, ttl := do(c)
			p.next("evalsha", fate{lose: true})
			ours(t)
			l.is(c.Key(), value, ttl)
			if n := p.count("evalsha"); n != 2 {
				t.Errorf("want the script twice, got it %d times", n)
			}
		})
	}
}

// A command that its client gave up on arrives when the record is another's.
func TestScripts_LateOnesLeaveWhatIsAnothers(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*testing.T, *Claim){
		"again":    func(t *testing.T, c *Claim) { attempt(t, "again", c.Again, Acquired) },
		"complete": func(t *testing.T, c *Claim) { settle(t, "complete", c.Complete, true) },
		"release":  func(t *testing.T, c *Claim) { settle(t, "release", c.Release, true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, p := newLab(t), newProxy(t)
			c := l.worker(dial(t, p.url)).Claim(hello, notify.Push, true)
			attempt(t, "try", c.Try, Acquired)
			late := p.next("evalsha", fate{late: true})
			do(t, c) // the client repeats it by itself
			l.put(c.Key(), "", 0)
			other := l.worker(l.redis).Claim(hello, notify.Push, true)
			attempt(t, "the other's", other.Try, Acquired)
			late.deliver(t)
			l.is(c.Key(), other.Mine().String(), testLease)
			settle(t, "the other's complete", other.Complete, true)
		})
	}
}

// A recovery that arrives late and a second time changes nothing that is done.
func TestRecover_LateOneLeavesDone(t *testing.T) {
	t.Parallel()
	l, p := newLab(t), newProxy(t)
	dead := Record{State: Pending, Owner: l.dead(), Nonce: "theirs", Fingerprint: notify.Fingerprint(hello)}
	c := l.worker(dial(t, p.url)).Claim(hello, notify.Push, true)
	l.put(c.Key(), dead.String(), testRetention)
	late := p.next("evalsha", fate{late: true})
	attempt(t, "try", c.Try, Recovered)
	settle(t, "complete", c.Complete, true)
	late.deliver(t)
	l.is(c.Key(), c.Mine().with(Done).String(), testRetention)
}

// The case that no comparison closes: see the package's documentation.
func TestTry_LateOneAfterTheReleaseIsWrittenOnceMore(t *testing.T) {
	t.Parallel()
	l, p := newLab(t), newProxy(t)
	c := l.worker(dial(t, p.url)).Claim(hello, notify.Push, true)
	late := p.next("set", fate{late: true})
	attempt(t, "try", c.Try, Acquired)
	settle(t, "release", c.Release, true)
	late.deliver(t)
	l.is(c.Key(), c.Mine().String(), testLease)
	copied := l.worker(l.redis).Claim(hello, notify.Push, true)
	attempt(t, "the copy's", copied.Try, Busy)
}

// A count is not repeated when its reply is lost, and does not stay for ever.
func TestCountCrash_IsNotRepeated(t *testing.T) {
	t.Parallel()
	l, p := newLab(t), newProxy(t)
	s := l.worker(dial(t, p.url))
	if n, err := s.CountCrash(soon(t), hello, notify.Push); n != 1 || err != nil {
		t.Fatalf("want 1, got %d, %v", n, err)
	}
	p.next("eval", fate{lose: true})
	if n, err := s.CountCrash(soon(t), hello, notify.Push); err == nil {
		t.Fatalf("want an error, got %d", n)
	}
	l.is(s.crashes(hello, notify.Push), "2", time.Hour)
	if n, err := s.CountCrash(soon(t), hello, notify.Push); n != 3 || err != nil {
		t.Errorf("want 3, got %d, %v", n, err)
	}
	if err := s.ForgetCrashes(soon(t), hello, notify.Push); err != nil {
		t.Error(err)
	}
	if n, err := s.CountCrash(soon(t), hello, notify.Push); n != 1 || err != nil {
		t.Errorf("want 1 after they are forgotten, got %d, %v", n, err)
	}
}
