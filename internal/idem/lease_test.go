package idem

import (
	"testing"
	"time"

	"notifylab/internal/notify"
)

func TestInstant_ElapsedIsTheLaterOfTwoClocks(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	then := Instant{boot: time.Hour, wall: noon}
	for _, test := range []struct {
		name       string
		boot, wall time.Duration // that passed on each
		want       time.Duration
	}{
		{"both go", 3 * time.Second, 3 * time.Second, 3 * time.Second},
		{"the wall is set back", 3 * time.Second, -time.Hour, 3 * time.Second},
		{"the wall is set forward", 3 * time.Second, time.Hour, time.Hour},
		{"the other stood still in suspend", 0, 8 * time.Hour, 8 * time.Hour},
		{"the other can't be read any more", -time.Hour, 3 * time.Second, 3 * time.Second},
		{"neither says anything", -time.Hour, -time.Second, 0},
	} {
		if got := then.until(Instant{boot: then.boot + test.boot, wall: noon.Add(test.wall)}); got != test.want {
			t.Errorf("%s: want %v, got %v", test.name, test.want, got)
		}
	}
}

// Both clocks are read, and neither is Go's own, which stands still in suspend.
func TestNow(t *testing.T) {
	t.Parallel()
	before := Now()
	<-time.After(20 * time.Millisecond)
	after := Now()
	if d := after.boot - before.boot; d < 20*time.Millisecond || d > time.Minute {
		t.Errorf("%v since boot", d)
	}
	if before.wall != before.wall.Round(0) {
		t.Error("the wall clock has a monotonic reading")
	}
	if d := before.Elapsed(); d < 20*time.Millisecond || d > time.Minute {
		t.Errorf("elapsed %v", d)
	}
}

func TestClaim_Left(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	leased := l.worker(l.redis).Claim(hello, notify.Push, true)
	attempt(t, "try", leased.Try, Acquired)
	ago := func(d time.Duration) Instant {
		now := Now()
		return Instant{boot: now.boot - d, wall: now.wall.Add(-d)}
	}
	leased.since = ago(testLease + time.Second)
	if left := leased.Left(); left > -time.Second {
		t.Errorf("of a lease that ended a second ago %v is left", left)
	}
	leased.since.wall = time.Now().Add(time.Hour) // it was set back since
	if left := leased.Left(); left > -time.Second {
		t.Errorf("and %v when the wall is set back", left)
	}
	attempt(t, "again", leased.Again, Acquired)
	if left := leased.Left(); left > testLease || left < testLease-20*time.Second {
		t.Errorf("of a new one %v is left", left)
	}
	good := l.worker(l.redis).Claim(hello, notify.Email, false)
	attempt(t, "for good", good.Try, Acquired)
	good.since = ago(testRetention)
	if left := good.Left(); left != testRetention {
		t.Errorf("of a claim for good %v is left", left)
	}
}

// A lease ends here no later than in Redis, which counts whole milliseconds.
func TestClaim_LeaseIsNoLongerThanInRedis(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := NewStore(l.redis, l.ns, takeSlot(t, l.dir), 20*time.Second+999*time.Microsecond, time.Hour+time.Microsecond)
	for _, try := range []string{"try", "again"} {
		c := s.Claim(hello, notify.Push, true)
		if c.TTL() != 20*time.Second {
			t.Errorf("want 20s, got %v", c.TTL())
		}
		l.put(c.Key(), "", 0)
		before := Now()
		if try == "try" {
			attempt(t, try, c.Try, Acquired)
		} else {
			attempt(t, try, c.Again, Acquired)
		}
		if age := before.Elapsed(); c.since.boot < before.boot-fresh || c.TTL()-c.Left() > age+time.Second {
			t.Errorf("%s: the lease counts from elsewhere than the try: %v is left after %v", try, c.Left(), age)
		}
		left := c.Left() // it is asked before Redis is: there must be no less there
		if inRedis := l.redis.PTTL(soon(t), c.Key()).Val(); inRedis < left-Now().wall.Sub(before.wall)-time.Millisecond {
			t.Errorf("%s: %v left here, %v in Redis", try, left, inRedis)
		}
	}
}

// Many share a reading of the clocks, which is never ahead and never old.
func TestRecent(t *testing.T) {
	t.Parallel()
	var r recent
	shared, readings := 0, 0
	for last, limit := (Instant{}), soon(t); (shared < 1000 || readings < 3) && limit.Err() == nil; {
		before := Now()
		got := r.instant()
		after := Now()
		if got.boot > after.boot || got.wall.After(after.wall) {
			t.Fatalf("%+v is ahead of %+v", got, after)
		}
		if age := before.boot - got.boot; age > fresh {
			t.Fatalf("%v old", age)
		}
		if got == last {
			shared++
		} else {
			readings++
		}
		last = got
	}
	if shared < 1000 || readings < 3 {
		t.Errorf("%d readings, shared %d times", readings, shared)
	}
}

// Whoever comes back after the lease has ended, and another has claimed, can
// neither complete nor release nor claim again.
func TestClaim_LateHolder(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	late := NewStore(l.redis, l.ns, takeSlot(t, l.dir), 50*time.Millisecond, testRetention).Claim(hello, notify.Push, true)
	attempt(t, "try", late.Try, Acquired)
	<-time.After(60 * time.Millisecond)
	if left := late.Left(); left > 0 {
		t.Errorf("%v is left of a lease that has ended", left)
	}
	l.is(late.Key(), "", 0)
	other := l.worker(l.redis).Claim(hello, notify.Push, true)
	attempt(t, "the other's", other.Try, Acquired)
	settle(t, "late complete", late.Complete, false)
	settle(t, "late release", late.Release, false)
	attempt(t, "late again", late.Again, Busy)
	l.is(late.Key(), other.Mine().String(), testLease)
	settle(t, "complete", other.Complete, true)
	settle(t, "late complete", late.Complete, false)
	attempt(t, "late again", late.Again, Duplicate)
	l.is(late.Key(), other.Mine().with(Done).String(), testRetention)
}

// What expired, and nobody else took, is done all the same: it was sent.
func TestClaim_LateHolderOfWhatNobodyElseTook(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c := NewStore(l.redis, l.ns, takeSlot(t, l.dir), 50*time.Millisecond, testRetention).Claim(hello, notify.Push, true)
	attempt(t, "try", c.Try, Acquired)
	<-time.After(60 * time.Millisecond)
	settle(t, "complete", c.Complete, true)
	l.is(c.Key(), c.Mine().with(Done).String(), testRetention)
	attempt(t, "a redelivery", l.worker(l.redis).Claim(hello, notify.Push, true).Try, Duplicate)
}

// The modes can be switched while records of the other are there.
func TestClaim_ModesMeet(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	here := l.worker(l.redis)
	leased := here.Claim(hello, notify.Push, true)
	attempt(t, "leased", leased.Try, Acquired)
	there := l.worker(l.redis).Claim(hello, notify.Push, false)
	attempt(t, "for good, while the lease runs", there.Try, Busy)
	if err := here.slot.Free(); err != nil {
		t.Fatal(err)
	}
	attempt(t, "for good, its owner dead", there.Try, Recovered)
	l.is(there.Key(), there.Mine().String(), testRetention)
	attempt(t, "leased, while it is claimed", l.worker(l.redis).Claim(hello, notify.Push, true).Try, Duplicate)
	settle(t, "release", there.Release, true)
	attempt(t, "leased, after its release", l.worker(l.redis).Claim(hello, notify.Push, true).Try, Acquired)
}
