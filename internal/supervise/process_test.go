package supervise

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"notifylab/internal/event"
)

func TestProcess_a_killed_worker_is_started_again_under_the_name_of_its_READY(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Policy: quick})
	p := b.start(child("work push-worker-1"))
	first := b.await(is(event.Ready, "push-worker-1"))
	if first.PID != p.Pid() {
		t.Errorf("READY has pid %d, the process %d", first.PID, p.Pid())
	}
	if found, ok := b.Find("push-worker-1"); !ok || found != p {
		t.Errorf("find push-worker-1: %v, %t", found, ok)
	}
	n := b.history.Len()
	if pid, err := p.SignalLife(unix.SIGKILL); pid != first.PID || err != nil {
		t.Fatalf("pid %d, %v", pid, err)
	}
	second := b.awaitFrom(n, is(event.Ready, "push-worker-1"))
	if second.PID == first.PID {
		t.Errorf("both lives have pid %d", first.PID)
	}
	got := b.all(about(event.Restart, "push-worker-1"))
	if len(got) != 1 || got[0].Exit != "killed" || got[0].Restarts != 1 || got[0].WaitMS != 0 || p.Restarts() != 1 {
		t.Errorf("restarts %+v, counted %d", got, p.Restarts())
	}
}

func TestProcess_of_two_with_one_name_the_later_READY_has_it(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Policy: quick})
	b.start(child("work w"))
	b.await(is(event.Ready, "w"))
	n := b.history.Len()
	later := b.start(child("work w"))
	b.awaitFrom(n, is(event.Ready, "w"))
	if found, _ := b.Find("w"); found != later {
		t.Error("the earlier one was found")
	}
	if err := later.Stop(b.ctx); err != nil {
		t.Fatal(err)
	}
	if found, ok := b.Find("w"); !ok || found == later {
		t.Errorf("after its end the other one should have the name: %v, %t", found, ok)
	}
}

func TestProcess_waits_grow_in_a_row_and_a_settled_delivery_ends_it(t *testing.T) {
	t.Parallel()
	waits := func(what string, settled func(event.Event) bool) (ms []int64) {
		b := newBench(t, Config{Policy: quick, Settled: settled})
		b.start(child(what))
		for len(ms) < 5 {
			n := b.history.Len()
			ms = nil
			for _, e := range b.all(about(event.Restart, "child")) {
				ms = append(ms, e.WaitMS)
			}
			if len(ms) < 5 {
				b.awaitFrom(n, about(event.Restart, "child"))
			}
		}
		return ms[:5]
	}
	if got, want := waits("fail 3", nil), []int64{0, 1, 2, 4, 4}; !equal(got, want) {
		t.Errorf("waits in a row %v ms, want %v", got, want)
	}
	acked := func(e event.Event) bool { return e.Kind == event.Acked }
	if got, want := waits("settle", acked), []int64{0, 0, 0, 0, 0}; !equal(got, want) {
		t.Errorf("waits after settled deliveries %v ms, want %v", got, want)
	}
	if got, want := waits("settle", nil), []int64{0, 1, 2, 4, 4}; !equal(got, want) {
		t.Errorf("waits if that is not what settles %v ms, want %v", got, want)
	}
}

func equal(a, b []int64) bool {
	for i := range a {
		if len(a) != len(b) || a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestProcess_health_is_counted_from_READY_and_ends_a_row(t *testing.T) {
	t.Parallel()
	for healthy, want := range map[time.Duration]int{1: 1, long: 2} {
		policy := quick
		policy.Healthy = healthy
		b := newBench(t, Config{Policy: policy})
		p := b.start(child("work w"))
		var last event.Event
		for range 2 {
			n := b.history.Len()
			if n == 0 {
				b.await(is(event.Ready, "w"))
				n = b.history.Len()
			}
			if err := p.Signal(unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			last = b.awaitFrom(n, about(event.Restart, "w"))
			b.awaitFrom(n, is(event.Ready, "w"))
		}
		if last.Restarts != want || p.Restarts() != 2 {
			t.Errorf("healthy after %s: %d in a row, want %d; %d in all, want 2", healthy, last.Restarts, want, p.Restarts())
		}
	}
}

func TestProcess_a_row_without_READY_is_given_up_however_long_its_lives(t *testing.T) {
	t.Parallel()
	policy := quick
	policy.Healthy, policy.MaxRestarts = 1, 2
	b := newBench(t, Config{Policy: policy})
	p := b.start(child("fail 69"))
	b.awaitExit(p)
	e := b.await(about(event.GaveUp, "child"))
	if e.Restarts != 2 || e.Exit != "exit 69" {
		t.Errorf("gave up after %d restarts (%s), want 2 (exit 69)", e.Restarts, e.Exit)
	}
}

func TestProcess_a_hopeless_exit_is_given_up_at_once(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Policy: quick, Hopeless: func(exit int) bool { return exit == 64 }})
	p := b.start(child("fail 64"))
	b.awaitExit(p)
	got := b.history.All()
	if len(got) != 1 || got[0].Kind != event.GaveUp || got[0].Exit != "exit 64" || got[0].Restarts != 0 {
		t.Errorf("events %+v, want one gave_up", got)
	}
	if err := b.Stop(); !errors.Is(err, ErrGaveUp) || !strings.Contains(err.Error(), "child") {
		t.Errorf("stop: %v, want that child was given up", err)
	}
}

func TestProcess_one_told_to_stop_ends_and_is_not_restarted(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Policy: quick})
	p := b.start(child("work w"))
	b.await(is(event.Ready, "w"))
	for range 2 {
		if err := p.Stop(b.ctx); err != nil {
			t.Fatal(err)
		}
	}
	if e := b.await(about(event.Exited, "w")); e.Exit != "exit 0" || e.Reason != "" {
		t.Errorf("ended with %q, reason %q", e.Exit, e.Reason)
	}
	if restarts := b.all(about(event.Restart, "w")); len(restarts) != 0 || p.Pid() != 0 {
		t.Errorf("restarted %d times, pid %d", len(restarts), p.Pid())
	}
	if pid, err := p.SignalLife(unix.SIGTERM); pid != 0 || !errors.Is(err, ErrNotRunning) {
		t.Errorf("signal: %v, want %v", err, ErrNotRunning)
	}
	if _, ok := b.Find("w"); ok {
		t.Error("it is still found")
	}
}

func TestProcess_one_that_will_not_stop_is_killed_after_the_grace(t *testing.T) {
	t.Parallel()
	policy := quick
	policy.Grace = time.Millisecond
	b := newBench(t, Config{Policy: policy})
	p := b.start(child("stubborn w"))
	b.await(is(event.Ready, "w"))
	if err := p.Stop(b.ctx); err != nil {
		t.Fatal(err)
	}
	if e := b.await(about(event.Exited, "w")); e.Exit != "killed" || e.Reason != "did not stop within 1ms" {
		t.Errorf("ended with %q, reason %q", e.Exit, e.Reason)
	}
}

func TestProcess_stop_returns_when_its_context_ends_and_sends_no_second_SIGTERM(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Policy: quick})
	p := b.start(child("slow w"))
	b.await(is(event.Ready, "w"))
	ended, cancel := context.WithCancel(b.ctx)
	cancel()
	told := func(e event.Event) bool { return e.Line == "told to stop" }
	for range 2 {
		if err := p.Stop(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("stop: %v", err)
		}
		b.await(told)
	}
	if err := p.Signal(unix.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	b.await(func(e event.Event) bool { return e.Line == "still here" })
	if n := len(b.all(told)); n != 1 {
		t.Errorf("told to stop %d times, want once", n)
	}
	p.Kill()
	b.awaitExit(p)
}

func TestProcess_a_stopped_one_can_be_told_to_stop(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Policy: quick})
	p := b.start(child("work w"))
	b.await(is(event.Ready, "w"))
	if err := p.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := AwaitStopped(b.ctx, p.Pid()); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(b.ctx); err != nil {
		t.Fatal(err)
	}
	if e := b.await(about(event.Exited, "w")); e.Exit != "exit 0" {
		t.Errorf("ended with %q", e.Exit)
	}
}

func TestAwaitStopped_says_that_a_process_is_dead_instead(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Policy: quick})
	p := b.start(child("work w"))
	pid := b.await(is(event.Ready, "w")).PID
	if stopped, err := Stopped(pid); stopped || err != nil {
		t.Errorf("a running one: %t, %v", stopped, err)
	}
	p.Kill()
	b.awaitExit(p)
	if err := AwaitStopped(b.ctx, pid); !errors.Is(err, ErrNotRunning) {
		t.Errorf("a dead one: %v", err)
	}
}

func TestProcess_one_that_is_told_to_stop_between_lives_ends_there(t *testing.T) {
	t.Parallel()
	policy := quick
	policy.First = long
	b := newBench(t, Config{Policy: policy})
	p := b.start(child("fail 3"))
	if e := b.await(about(event.Restart, "child")); e.WaitMS != long.Milliseconds() {
		t.Errorf("restart in %d ms", e.WaitMS)
	}
	if err := p.Stop(b.ctx); err != nil {
		t.Fatal(err)
	}
	if got := b.all(about(event.Exited, "child")); len(got) != 1 || got[0].Exit != "exit 3" {
		t.Errorf("its story ends with %+v", got)
	}
}
