package lab

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/rounds"
)

func is(t *testing.T, s *Settings, want event.Settings) {
	t.Helper()
	if got, err := s.Get(soon(t)); got != want || err != nil {
		t.Errorf("want %+v, got %+v, %v", want, got, err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	c, _ := dial(t)
	ns := place(t, c)
	s, same := NewSettings(c, ns), NewSettings(c, ns)
	other := NewSettings(c, place(t, c))

	is(t, s, event.Settings{}) // unset is off
	set := func(switches map[string]bool) {
		t.Helper()
		if err := s.Set(soon(t), switches); err != nil {
			t.Fatal(err)
		}
	}
	set(nil)
	is(t, s, event.Settings{})
	set(map[string]bool{"idempotency": true})
	is(t, s, event.Settings{Idempotency: true})
	set(map[string]bool{"claim-lease": true, "provider-key": true})
	is(t, same, event.Settings{Idempotency: true, ClaimLease: true, ProviderKey: true})
	set(map[string]bool{"claim-lease": false})
	is(t, same, event.Settings{Idempotency: true, ProviderKey: true})
	is(t, other, event.Settings{})

	if got := c.HGetAll(soon(t), string(ns)+":lab:flags").Val(); len(got) != len(Fields()) {
		t.Errorf("want a field for each of %v, got %v", Fields(), got)
	}
	for _, name := range Fields() {
		if _, err := ParseSwitch(c.HGet(soon(t), string(ns)+":lab:flags", name).Val()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What somebody wrote by hand and cannot be read is off, and so is what this
// version does not know.
func TestSettings_GarbageIsOff(t *testing.T) {
	t.Parallel()
	c, _ := dial(t)
	ns := place(t, c)
	s := NewSettings(c, ns)
	err := c.HSet(soon(t), ns.Key("lab:flags"), "idempotency", "maybe", "claim-lease", "TRUE", "provider-key", "", "colour", "on").Err()
	if err != nil {
		t.Fatal(err)
	}
	is(t, s, event.Settings{ClaimLease: true})
	if err := c.Del(soon(t), ns.Key("lab:flags")).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Set(soon(t), ns.Key("lab:flags"), "on", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(soon(t)); err == nil {
		t.Errorf("of something else than settings: want an error, got %+v", got)
	}
}

func TestSettings_SeedDoesNotOverwrite(t *testing.T) {
	t.Parallel()
	c, n := dial(t)
	s := NewSettings(c, place(t, c))
	if err := s.Set(soon(t), map[string]bool{"idempotency": false}); err != nil {
		t.Fatal(err)
	}
	for _, lease := range []bool{true, false} { // the second time it is set
		n.losing("hsetnx", 1) // and a lost reply changes nothing
		if err := s.Seed(soon(t), map[string]bool{"idempotency": true, "claim-lease": lease}); err != nil {
			t.Fatal(err)
		}
		is(t, s, event.Settings{ClaimLease: true})
	}
	if err := s.Seed(soon(t), nil); err != nil {
		t.Error(err)
	}
}

// All who ask while one read is on its way share the next: two round trips for
// as many as there are, and the first has nothing to say to them.
func TestSettings_SharedReads(t *testing.T) {
	t.Parallel()
	c, n := dial(t)
	ns := place(t, c)
	s := NewSettings(c, ns)
	is(t, s, event.Settings{})
	before := n.count("hgetall")
	quick, _ := dial(t)
	is(t, NewSettings(quick, ns), event.Settings{}) // connected
	release := n.holding()
	first := s.reads.Join()
	await(t, n.waiting)
	second := s.reads.Join()
	for range 64 {
		if joined := s.reads.Join(); joined != second || joined == first {
			t.Fatal("want the next read, shared")
		}
	}
	if err := NewSettings(quick, ns).Set(soon(t), map[string]bool{"idempotency": true}); err != nil {
		t.Fatal(err)
	}
	release()
	var got []bool
	for _, r := range []*rounds.Round[event.Settings]{first, second} {
		answer, err := r.Wait(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, answer.Idempotency)
	}
	if !slices.Equal(got, []bool{false, true}) {
		t.Errorf("want the setting in the second read only, got %v", got)
	}
	if reads := n.count("hgetall") - before; reads != 2 {
		t.Errorf("want 2 reads for 66 questions, got %d", reads)
	}
}

// Of many who ask while one read is on its way the most share the next.
func TestSettings_GetShares(t *testing.T) {
	t.Parallel()
	c, n := dial(t)
	s := NewSettings(c, place(t, c))
	is(t, s, event.Settings{})
	before := n.count("hgetall")
	release := n.holding()
	const ask = 64
	var asking, answered sync.WaitGroup
	asking.Add(ask)
	get := func() {
		if _, err := s.Get(soon(t)); err != nil {
			t.Error(err)
		}
	}
	answered.Go(get)
	await(t, n.waiting)
	for range ask {
		answered.Go(func() { asking.Done(); get() })
	}
	asking.Wait()
	release()
	answered.Wait()
	if reads := n.count("hgetall") - before; reads > ask/2 { // whoever was late has one of his own
		t.Errorf("%d reads for %d questions", reads, ask+1)
	}
}

// Whoever sets something sees it in whatever is asked after.
func TestSettings_NoAnswerIsOlderThanItsQuestion(t *testing.T) {
	t.Parallel()
	c, n := dial(t)
	ns := place(t, c)
	s := NewSettings(c, ns)
	ctx := soon(t)
	var stop atomic.Bool
	var asked atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for !stop.Load() {
				if _, err := s.Get(ctx); err != nil {
					t.Error(err)
					return
				}
				asked.Add(1)
			}
		})
	}
	writer := NewSettings(c, ns)
	for i := range 2000 {
		want := event.Settings{Idempotency: i%2 == 0, ProviderKey: i%3 == 0}
		err := writer.Set(ctx, map[string]bool{"idempotency": want.Idempotency, "provider-key": want.ProviderKey})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Get(ctx); got != want || err != nil {
			t.Fatalf("round %d: want %+v, got %+v, %v", i, want, got, err)
		}
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d questions, %d reads", asked.Load()+2000, n.count("hgetall"))
}

// Whoever leaves early takes nobody with him, and Redis away is an error within
// bounds.
func TestSettings_RedisAway(t *testing.T) {
	t.Parallel()
	c, n := dialWithin(t, commandTime/2)
	s := NewSettings(c, place(t, c))
	is(t, s, event.Settings{})
	n.blackhole(true)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := s.Get(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > commandTime/2 {
		t.Errorf("want the deadline, got %v after %v", err, time.Since(start))
	}
	if _, err := s.Get(soon(t)); err == nil || time.Since(start) > 2*commandTime+2*time.Second {
		t.Errorf("want an error, got %v after %v", err, time.Since(start))
	}
	n.blackhole(false)
	is(t, s, event.Settings{})
	n.losing("hgetall", 1)
	is(t, s, event.Settings{})
	n.losing("hgetall", 2)
	if _, err := s.Get(soon(t)); err == nil || !strings.HasPrefix(err.Error(), "read settings: ") {
		t.Errorf("both replies lost: want an error, got %v", err)
	}
	is(t, s, event.Settings{})
}

// await looks until it is so.
func await(t *testing.T, ok func() bool) {
	t.Helper()
	for ctx := soon(t); !ok(); {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatal("it never was so")
		}
	}
}
