package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/servers"
	"notifylab/internal/servers/serverstest"
)

// What the workers of a soak have here: some by themselves, some as many as bench's.
const (
	handlers = 16
	prefetch = 32
	many     = 256
)

// shortSoak has time for some kills and for a restart of each server.
func shortSoak(t *testing.T, pair *servers.Pair, settings event.Settings) (Soak, rig) {
	t.Helper()
	r := harmRig(t, pair)
	r.Settings, r.Concurrency = settings, handlers
	return Soak{
		Config: r.Config, Duration: 7 * time.Second, Every: 5 * time.Millisecond,
		KillEvery: 300 * time.Millisecond, RestartEvery: 1800 * time.Millisecond,
	}, r
}

// TestSoak soaks for a while under some settings, and judges those whose workers
// lack the guard that they are judged by.
func TestSoak(t *testing.T) {
	t.Parallel()
	pair := serverstest.Own(t)
	for name, concurrency := range map[string]int{"lease": many, "none": handlers, "lease+key": many, "ack-early": handlers} {
		t.Run(name, func(t *testing.T) {
			k, r := shortSoak(t, pair, SettingsNamed(name))
			k.Concurrency = concurrency
			v, sum := soak(t, k)
			if v.Status != Held {
				t.Errorf("%s%+v", explain(v), sum)
			}
			if sum.Kills < 3 || sum.RabbitMQRestarts < 1 || sum.RedisRestarts < 1 || sum.Confirmed < 500 {
				t.Errorf("too little happened: %+v", sum)
			}
			if n := sum.Once + sum.Twice + sum.Lost + sum.Parked; n != sum.Confirmed || sum.Unknown != 0 {
				t.Errorf("%d of %d confirmed are accounted for: %+v", n, sum.Confirmed, sum)
			}
			if n := sum.Confirmed + sum.Refused + sum.Unconfirmed; n != sum.Published {
				t.Errorf("%d of %d published are accounted for: %+v", n, sum.Published, sum)
			}
			for _, e := range r.story.All() {
				if e.ID != "" {
					t.Fatalf("it tells of a message: %+v", e)
				}
			}
			r.left(t, nothing)
		})
	}
	for _, c := range []struct {
		judgedAs, flags string
		kills, restarts bool
		lasts           time.Duration
	}{
		// Kills may have some sent twice, restarts of RabbitMQ none. Not each has: what is
		// in hand can be done before the broker hangs up.
		{"lease", "--idempotency off --claim-lease off", false, true, 7 * time.Second},
		{"key", "--provider-key off", true, false, 3 * time.Second}, // nor may kills
		{"record", "--idempotency off", true, false, 3 * time.Second},
		// Says that it sends, and our provider knows of nothing.
		{"none", "--provider-url ''", false, false, time.Second},
	} {
		t.Run(c.judgedAs+" with "+c.flags, func(t *testing.T) {
			k, r := shortSoak(t, pair, SettingsNamed(c.judgedAs))
			k.Duration = c.lasts
			if !c.kills {
				k.KillEvery = 0
			}
			if !c.restarts {
				k.RestartEvery = 0
			}
			right := r.Worker
			k.Worker = func(channel notify.Channel) []string { return adding(c.flags)(t, right(channel)) }
			v, sum := soak(t, k)
			if v.Status != NotHeld || len(v.Findings) == 0 {
				t.Errorf("%s%+v", explain(v), sum)
			}
			for _, f := range v.Findings {
				if !f.OK && len(f.IDs) == 0 {
					t.Errorf("names nobody: %+v", f)
				}
			}
			r.left(t, nothing)
		})
	}
	// However short it is, there is traffic, and somebody is killed: on a busy machine the
	// first message may be confirmed after a second, and the beat be late.
	for _, restartEvery := range []time.Duration{0, time.Millisecond} {
		t.Run(fmt.Sprintf("for a moment, a restart every %s", restartEvery), func(t *testing.T) {
			k, r := shortSoak(t, pair, SettingsNamed("lease"))
			k.Duration, k.KillEvery, k.RestartEvery = 4*time.Millisecond, 3*time.Millisecond, restartEvery
			if v, sum := soak(t, k); v.Status != Held || sum.Confirmed == 0 || sum.Kills == 0 {
				t.Errorf("%s%+v", explain(v), sum)
			}
			r.left(t, nothing)
		})
	}
	t.Run("nothing confirmed in time", func(t *testing.T) {
		k, r := shortSoak(t, pair, SettingsNamed("lease"))
		k.Timeout = time.Millisecond
		if v, sum := soak(t, k); v.Status != Inconclusive || v.Why != "no message was confirmed within 1ms" || sum.Kills != 0 {
			t.Errorf("%s%+v", explain(v), sum)
		}
		r.left(t, nothing)
	})
	t.Run("killed by somebody else", func(t *testing.T) {
		k, r := shortSoak(t, pair, SettingsNamed("none"))
		k.RestartEvery, k.KillEvery, k.Duration = 0, 0, 3*time.Second
		emit, lives := k.Emit, 0
		k.Emit = func(e event.Event) {
			emit(e)
			if e.Kind != event.Ready || lives == 12 {
				return
			}
			lives++
			time.AfterFunc(300*time.Millisecond, func() { _ = syscall.Kill(e.PID, syscall.SIGKILL) })
		}
		if v, sum := soak(t, k); v.Status != Held || sum.Kills != 0 || sum.Again == 0 {
			t.Errorf("%s%+v", explain(v), sum)
		}
		r.left(t, nothing)
	})
	// Each is accepted, and each attempt's answer comes too late: sent again, as it may be.
	t.Run("no answer in time", func(t *testing.T) {
		k, r := shortSoak(t, pair, SettingsNamed("lease"))
		right := r.Worker
		k.Worker = func(channel notify.Channel) []string {
			return adding("--send-timeout 15ms")(t, right(channel))
		}
		k.RestartEvery, k.KillEvery, k.Duration = 0, 0, time.Second
		if v, sum := soak(t, k); v.Status != Held || sum.Unanswered == 0 || sum.Again == 0 || sum.Parked == 0 {
			t.Errorf("%s%+v", explain(v), sum)
		}
	})
	t.Run("not settled in time", func(t *testing.T) {
		k, r := shortSoak(t, pair, event.Settings{})
		right := r.Worker
		k.Worker = func(channel notify.Channel) []string {
			return adding("--provider-url http://127.0.0.1:1 --attempts 100 --backoff 1s")(t, right(channel))
		}
		k.RestartEvery, k.Duration, k.Timeout = 0, time.Second, 2*time.Second
		if v, sum := soak(t, k); v.Status != Inconclusive || !strings.HasPrefix(v.Why, "not everything was settled within 2s") {
			t.Errorf("%s%+v", explain(v), sum)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		k, _ := shortSoak(t, pair, event.Settings{})
		cause := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(within(t))
		emit := k.Emit
		k.Emit = func(e event.Event) {
			emit(e)
			if e.State == killed {
				cancel(cause)
			}
		}
		err := onHarmed(t, pair, func() error {
			_, _, err := k.Run(ctx)
			return err
		})
		if !errors.Is(err, cause) {
			t.Errorf("it ended with %v", err)
		}
	})
}

func soak(t *testing.T, k Soak) (v Verdict, sum Tally) {
	t.Helper()
	err := onHarmed(t, k.Pair, func() (err error) {
		v, sum, err = k.Run(t.Context())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s %+v", v.Status, v.Why, sum)
	return v, sum
}

// soakOf is the end of a soak through some harm.
func soakOf(change func(*soakEnd), harm ...interruption) soakEnd {
	e := soakEnd{began: time.Unix(0, 0), harm: harm, ns: "k7f3", Tally: Tally{Confirmed: 1000, Accepted: 1000, Once: 1000}}
	for _, i := range harm {
		switch i.what {
		case workerKilled:
			e.Kills++
		case rabbitRestart:
			e.RabbitMQRestarts++
		case redisRestart:
			e.RedisRestarts++
		}
	}
	if change != nil {
		change(&e)
	}
	return e
}

// The workers of a soak that is judged here, by their pids.
const pidOne, pidTwo, pidThree = 11, 12, 13

func killAt(second, pid int) interruption { return happenedAt(workerKilled, second, pid) }

func happenedAt(what interruptionKind, second, pid int) interruption {
	return interruption{what, pid, time.Unix(int64(second), 0)}
}

// resent has n messages accepted a second time, on push: by one worker, then by another.
func resent(n int, before, at time.Duration) func(*soakEnd) {
	return func(e *soakEnd) {
		for i := range n {
			e.again = append(e.again, secondTime(i+1, before, at, pidTwo, pidOne))
		}
		e.Twice, e.Once = n, 1000-n
	}
}

// secondTime is the acceptance of a caller's call, after those of others.
func secondTime(n int, before, at time.Duration, caller int, earlier ...int) sentAgain {
	return sentAgain{numbered{n, notify.Push}, before, at, caller, earlier, earlier}
}

// noAnswer has the first n messages UNKNOWN, once each, to a worker.
func noAnswer(n, second, pid int, change func(*soakEnd)) func(*soakEnd) {
	return func(e *soakEnd) {
		change(e)
		e.unanswered = map[numbered][]interruption{}
		for i := range n {
			e.unanswered[numbered{i + 1, notify.Push}] = []interruption{happenedAt(unansweredSend, second, pid)}
			e.Unanswered++
		}
	}
}

func losing(n int) func(*soakEnd) {
	return func(e *soakEnd) {
		e.Lost, e.Once = n, 1000-n
		e.lost = []Subject{{"k7f3-1", push}}
	}
}

// TestJudgeSoak has ends that must be judged one way or the other.
func TestJudgeSoak(t *testing.T) {
	t.Parallel()
	const s = time.Second
	kill, broker, redis := killAt(10, pidOne), happenedAt(rabbitRestart, 10, 0), happenedAt(redisRestart, 10, 0)
	over := happenedAt(sessionEnd, 11, pidOne)
	all := slices.Sorted(func(yield func(string) bool) {
		for _, setting := range NamedSettings() {
			name := setting.Name
			if !yield(name) {
				return
			}
		}
	})
	none, late := []string(nil), []string{"ack-early", "lease", "none"}
	unheard := append([]string{"record"}, late...)
	cases := []struct {
		name  string
		end   soakEnd
		holds []string // under which settings; under the others not
	}{
		{"all once", soakOf(nil, kill), all},
		{"one lost at a kill", soakOf(losing(1), kill), []string{"ack-early", "record"}},
		{"a handler's worth lost at a kill", soakOf(losing(handlers), kill), []string{"ack-early", "record"}},
		{"more lost than handlers", soakOf(losing(handlers+1), kill), none},
		{"lost at a death that nobody planned", soakOf(losing(1), happenedAt(workerDied, 10, pidOne)), []string{"ack-early", "record"}},
		{"lost at a restart of RabbitMQ", soakOf(losing(1), broker), []string{"ack-early"}},
		{"lost at a restart of Redis", soakOf(losing(1), redis), none},

		{"twice at a kill", soakOf(resent(1, 10*s, 11*s), kill), late},
		{"twice at a death that nobody planned", soakOf(resent(1, 10*s, 11*s), happenedAt(workerDied, 10, pidOne)), late},
		{"twice, accepted late", soakOf(resent(1, 13*s, 13*s), kill), late},
		{"twice, and the killed worker's call was the second", soakOf(resent(1, 11*s, 12*s), killAt(10, pidTwo)), late},
		{"twice, and who was killed called after another was done", soakOf(resent(1, 5*s, 11*s), killAt(10, pidTwo)), none},
		{"twice at a kill, each handler", soakOf(resent(handlers, 9*s, 11*s), kill), late},
		{"twice, more than handlers", soakOf(resent(handlers+1, 9*s, 11*s), kill), []string{"ack-early", "none"}},
		{"twice, more than prefetched", soakOf(resent(prefetch+1, 9*s, 11*s), kill), none},
		{"twice, more than prefetched, two kills", soakOf(resent(prefetch+1, 9*s, 13*s), kill, killAt(12, pidTwo)), none},
		{"twice, more than prefetched, two kills of one place", soakOf(resent(prefetch+1, 9*s, 13*s), kill, killAt(12, pidOne)), []string{"ack-early", "none"}},
		{"twice before the kill", soakOf(resent(1, 8*s, 9*s), kill), none},
		{"twice, long after the kill", soakOf(resent(1, 41*s, 42*s), kill), none},
		{"twice, long after the first", soakOf(resent(1, 9*s, 41*s), killAt(40, pidOne)), none},
		{"twice at a kill of another worker", soakOf(resent(1, 9*s, 11*s), killAt(10, pidThree)), none},
		{"twice at a kill of who was the first of three", soakOf(func(e *soakEnd) {
			e.again = []sentAgain{secondTime(1, 9*s, 11*s, pidTwo, pidOne), secondTime(1, 11*s, 12*s, pidThree, pidOne, pidTwo)}
		}, kill), late},
		{"twice at a kill of whose call came to nothing", soakOf(func(e *soakEnd) {
			a := secondTime(1, 11*s, 12*s, pidThree, pidTwo)
			a.hands = append(slices.Clone(a.hands), pidOne)
			e.again = []sentAgain{a}
		}, kill), late},

		{"twice at a restart of RabbitMQ, and no session has ended", soakOf(resent(1, 9*s, 19*s), broker), none},
		{"twice at a session's end", soakOf(resent(1, 9*s, 19*s), over), []string{"ack-early", "none"}},
		{"twice at a session's end, and its worker hears of it last", soakOf(resent(1, 9*s, 10*s), over), []string{"ack-early", "none"}},
		{"twice at a session's end, too many", soakOf(resent(prefetch+1, 9*s, 19*s), over), none},
		{"twice at the end of another's session", soakOf(resent(1, 9*s, 19*s), happenedAt(sessionEnd, 11, pidTwo)), none},
		{"twice at a kill, with the handlers of the session before", soakOf(resent(2*handlers, 9*s, 19*s), over, killAt(12, pidOne)), late},
		{"twice at a restart of Redis", soakOf(resent(1, 9*s, 12*s), redis), none},
		// The first kill could be the cause of either, the second only of one.
		{"each has a cause", soakOf(func(e *soakEnd) {
			resent(handlers, 9*s, 11*s)(e)
			resent(handlers, 9*s, 13*s)(e)
		}, kill, killAt(12, pidOne)), late},

		// Each but the last could have either kill for its cause, and takes the first there is.
		{"the last needs a cause that others have taken", soakOf(func(e *soakEnd) {
			for n := range handlers {
				e.again = append(e.again, secondTime(n+1, 9*s, 11*s, pidTwo, pidOne, pidThree))
			}
			e.again = append(e.again, secondTime(handlers+1, 9*s, 12*s, pidTwo, pidOne))
		}, kill, killAt(10, pidThree)), late},

		{"twice, without an answer", soakOf(noAnswer(2, 10, pidOne, resent(2, 9*s, 11*s))), unheard},
		{"twice, one without an answer", soakOf(noAnswer(1, 10, pidOne, resent(2, 9*s, 11*s))), none},
		{"twice, one without an answer, the others at a kill", soakOf(noAnswer(1, 10, pidOne, resent(handlers+1, 9*s, 11*s)), kill), late},
		{"twice, and who had no answer never called", soakOf(noAnswer(1, 10, pidThree, resent(1, 9*s, 11*s))), none},
		{"twice, and only the second had no answer", soakOf(noAnswer(1, 15, pidTwo, resent(1, 9*s, 11*s))), none},
		// The UNKNOWN is the cause of the third alone, the kill of the second.
		{"three times, by a kill and an UNKNOWN", soakOf(noAnswer(1, 15, pidTwo, func(e *soakEnd) {
			e.again = []sentAgain{secondTime(1, 9*s, 11*s, pidTwo, pidOne), secondTime(1, 11*s, 16*s, pidThree, pidOne, pidTwo)}
		}), kill), late},
	}
	for _, c := range cases {
		for _, name := range all {
			v := judgeSoak(Soak{Config: Config{Settings: SettingsNamed(name), Concurrency: handlers}, Duration: 20 * s}, c.end)
			want := NotHeld
			if slices.Contains(c.holds, name) {
				want = Held
			}
			if v.Status != want {
				t.Errorf("%s, %s: %s", c.name, name, explain(v))
			}
			if bad := slices.ContainsFunc(v.Findings, func(f Finding) bool {
				return !f.OK && slices.ContainsFunc(f.IDs, func(id string) bool { return strings.HasPrefix(id, "k7f3-") })
			}); bad != (want == NotHeld) {
				t.Errorf("%s, %s names nobody: %s", c.name, name, explain(v))
			}
		}
	}
}

// TestJudgeSoak_inconclusive: what was not done shows nothing.
func TestJudgeSoak_inconclusive(t *testing.T) {
	t.Parallel()
	k := Soak{Duration: 20 * time.Second, KillEvery: time.Second, RestartEvery: 5 * time.Second}
	kill, restart, other := killAt(10, pidOne), happenedAt(redisRestart, 10, 0), happenedAt(rabbitRestart, 12, 0)
	for why, e := range map[string]soakEnd{
		"nothing was published and confirmed": soakOf(func(e *soakEnd) { e.Confirmed = 0 }, kill, restart, other),
		"no worker could be killed":           soakOf(nil, restart, other),
		"not each server was restarted":       soakOf(nil, kill, restart),
	} {
		if v := judgeSoak(k, e); v.Status != Inconclusive || v.Why != why {
			t.Errorf("want %s: %s", why, explain(v))
		}
	}
	if v := judgeSoak(k, soakOf(nil, kill, restart, other)); v.Status != Held {
		t.Error(explain(v))
	}
}

// A reason for being parked can be another one each time.
func TestTally_keepsSoManyReasons(t *testing.T) {
	t.Parallel()
	var sum Tally
	for i := range 3 * mostNamed {
		sum.parkedFor(fmt.Sprint("read tcp 127.0.0.1:", i))
		sum.parkedFor("crashed")
	}
	if n := len(sum.Why); n != mostNamed+1 || sum.Why["crashed"] != 3*mostNamed || sum.Why["something else"] != 2*mostNamed+1 {
		t.Errorf("%d reasons: %v", n, sum.Why)
	}
}

// TestSoakTally counts each acceptance, and gives each confirmed message one
// outcome.
func TestSoakTally(t *testing.T) {
	t.Parallel()
	began := time.Now()
	tally := newSoakTally(began)
	caller := 0 // another each time
	accept := func(n int, c notify.Channel, after time.Duration) {
		caller++
		tally.called(event.Event{Kind: event.Accepted, Time: began.Add(after), ID: fmt.Sprintf("my-ns-%d", n), Channel: string(c), Caller: caller})
	}
	for n := 1; n <= 6; n++ {
		tally.offered(n, notify.Push)
		if n < 6 { // of the sixth nobody knows
			tally.published()
		}
	}
	for n := 1; n <= 4; n++ {
		tally.answered(n, notify.Push, 0)
	}
	tally.answered(5, notify.Push, 3)
	accept(1, notify.Push, time.Second)
	for _, at := range []time.Duration{1, 3, 7} {
		accept(2, notify.Push, at*time.Second)
	}
	for _, kind := range []event.Kind{event.Sent, event.Unknown, event.Unknown, event.Retry} {
		tally.told(event.Event{Time: began.Add(8 * time.Second), Kind: kind, ID: "my-ns-2", Channel: push, PID: 9})
	}
	accept(2, notify.Push, 9*time.Second)
	accept(5, notify.Push, time.Second)
	accept(6, notify.Push, time.Second)
	accept(1, notify.Email, time.Second) // was never offered
	accept(7, notify.Push, time.Second)  // nor this
	tally.called(event.Event{Kind: event.Deduplicated, ID: "my-ns-1", Channel: push})
	tally.called(event.Event{Kind: event.Refused, ID: "my-ns-1", Channel: push})
	e := tally.end("my-ns", map[Subject]string{{"my-ns-3", push}: "crashed", {"my-ns-4", email}: "crashed"}, 9*time.Second)
	same(t, "tally", e.Tally, Tally{
		Kind: "soak", ElapsedMS: 9000, Published: 5, Confirmed: 4, Unconfirmed: 1, Arrived: 1,
		Accepted: 7, Again: 3, Known: 1, Unanswered: 2, Once: 1, Twice: 1, Lost: 1, Parked: 1,
		Why: map[string]int{"crashed": 1},
	})
	same(t, "lost", e.lost, []Subject{{"my-ns-4", push}})
	second := numbered{2, notify.Push}
	if want := fmt.Sprint([]sentAgain{
		{second, time.Second, 3 * time.Second, 3, []int{2}, []int{2}},
		{second, 3 * time.Second, 7 * time.Second, 4, []int{2, 3}, []int{2, 3}},
		{second, 7 * time.Second, 9 * time.Second, 5, []int{2, 3, 4}, []int{2, 3, 4, 9, 9, 9}},
	}); fmt.Sprint(e.again) != want {
		t.Errorf("again: %+v, want %s", e.again, want)
	}
	if n := len(e.unanswered[second]); n != 2 || len(e.unanswered) != 1 {
		t.Errorf("unanswered: %v", e.unanswered)
	}
}

// A death counts once, however often it is noted, and again when another has the pid.
func TestSoakTally_of_deaths(t *testing.T) {
	t.Parallel()
	began := time.Now()
	tally := newSoakTally(began)
	for i, step := range []struct {
		what  interruptionKind
		after time.Duration
		ready time.Duration // that a worker with the pid said so before; 0: none
		want  bool
	}{
		{workerKilled, 1, 0, true},
		{workerKilled, 2, 0, false},
		{workerDied, 2, 0, false},
		{workerKilled, 3, 1, false}, // said before it died
		{workerDied, 5, 4, true},
		{sessionEnd, 6, 0, true},
		{sessionEnd, 7, 0, true},
	} {
		if step.ready > 0 {
			tally.lives(11, began.Add(step.ready*time.Second))
		}
		if got := tally.interrupted(interruption{step.what, 11, began.Add(step.after * time.Second)}); got != step.want {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
	if sum := tally.sum(); sum.Kills != 1 || len(tally.harm) != 4 {
		t.Errorf("%d kills, %v", sum.Kills, tally.harm)
	}
}
