package supervise

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"notifylab/internal/event"
)

// running is a Run that goes on.
type running struct {
	bench
	cancel context.CancelFunc
	done   chan struct{}
	err    error // to be read when done is closed
}

func (b bench) run(children ...Child) *running {
	ctx, cancel := context.WithCancel(b.ctx)
	r := &running{bench: b, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = b.Run(ctx, children...)
	}()
	b.t.Cleanup(func() {
		cancel()
		b.Kill()
		<-r.done
	})
	return r
}

func (r *running) wait() error {
	r.t.Helper()
	select {
	case <-r.done:
		return r.err
	case <-r.ctx.Done():
		r.t.Fatal("still running")
		return nil
	}
}

// ddollar/foreman#330
func TestRun_ends_every_child_once_and_restarts_none(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Policy: quick})
	r := b.run(child("work a"), child("work b"), child("shell c"))
	for _, name := range []string{"a", "b", "c"} {
		b.await(is(event.Ready, name))
	}
	r.cancel()
	if err := r.wait(); err != nil {
		t.Errorf("run: %v", err)
	}
	for name, exit := range map[string]string{"a": "exit 0", "b": "exit 0", "c": "terminated"} {
		told := b.all(func(e event.Event) bool { return e.Line == "told to stop" && e.Source == name })
		if e := b.await(about(event.Exited, name)); e.Exit != exit || len(told) != 1 {
			t.Errorf("%s ended with %q (want %q), told to stop %d times", name, e.Exit, exit, len(told))
		}
	}
	if got := b.all(func(e event.Event) bool { return e.Kind == event.Restart }); len(got) != 0 {
		t.Errorf("restarts %+v", got)
	}
	if _, err := b.Start(child("work d")); !errors.Is(err, ErrStopped) {
		t.Errorf("start after the end: %v, want %v", err, ErrStopped)
	}
}

// DarthSim/overmind#29
func TestRun_one_given_up_leaves_the_other_and_is_in_the_error(t *testing.T) {
	t.Parallel()
	policy := quick
	policy.MaxRestarts = 2
	b := newBench(t, Config{Policy: policy})
	bad := child("fail 3")
	bad.Name = "bad"
	r := b.run(bad, child("work good"))
	e := b.await(about(event.GaveUp, "bad"))
	if e.Restarts != 2 || e.Exit != "exit 3" {
		t.Errorf("gave up after %d (%s)", e.Restarts, e.Exit)
	}
	b.await(is(event.Ready, "good"))
	if _, ok := b.Find("good"); !ok {
		t.Error("the other one is gone")
	}
	r.cancel()
	err := r.wait()
	if want := "gave up bad after 2 restarts (exit 3)"; !errors.Is(err, ErrGaveUp) || err.Error() != want {
		t.Errorf("run: %v, want %s", err, want)
	}
}

func TestRun_returns_when_nothing_is_left_to_run(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Policy: quick, Hopeless: func(int) bool { return true }})
	if err := b.run(child("fail 64"), once("fail 0")).wait(); !errors.Is(err, ErrGaveUp) {
		t.Errorf("run: %v", err)
	}
}

func TestRun_a_program_that_is_not_there_stops_the_others(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Policy: quick})
	missing := Child{Name: "missing", Argv: []string{filepath.Join(t.TempDir(), "none")}}
	err := b.run(once("work a"), missing).wait()
	if !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "start missing: ") {
		t.Errorf("run: %v", err)
	}
	if got := b.all(func(e event.Event) bool { return e.Kind == event.Exited }); len(got) != 1 {
		t.Errorf("ends %+v, want the other's", got)
	}
}

func TestRun_a_program_that_goes_missing_counts_as_a_death(t *testing.T) {
	t.Parallel()
	policy := quick
	policy.MaxRestarts = 2
	b := newBench(t, Config{Policy: policy})
	script := filepath.Join(t.TempDir(), "script")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, script); err != nil {
		t.Fatal(err)
	}
	c := child("work w")
	c.Argv = []string{script}
	p := b.start(c)
	b.await(is(event.Ready, "w"))
	if err := os.Remove(script); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(9); err != nil {
		t.Fatal(err)
	}
	b.awaitExit(p)
	e := b.await(about(event.GaveUp, "w"))
	if e.Exit != "not started" || !strings.Contains(e.Reason, "no such file") || e.Restarts != 2 {
		t.Errorf("gave up: %+v", e)
	}
}

func TestKill_ends_a_shutdown_that_waits_for_its_grace(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Policy: quick}) // no grace that ends
	r := b.run(child("slow a"), child("slow b"))
	for _, name := range []string{"a", "b"} {
		b.await(is(event.Ready, name))
	}
	r.cancel()
	for _, name := range []string{"a", "b"} {
		b.await(func(e event.Event) bool { return e.Line == "told to stop" && e.Source == name })
	}
	b.Kill()
	if err := r.wait(); err != nil {
		t.Errorf("run: %v", err)
	}
	for _, name := range []string{"a", "b"} {
		if e := b.await(about(event.Exited, name)); e.Exit != "killed" || e.Reason != "" {
			t.Errorf("%s ended with %q, reason %q", name, e.Exit, e.Reason)
		}
	}
}

// Supervisor/supervisor#1396
func TestSweep_members_of_a_dead_leaders_group_die(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Policy: quick}) // no delay that ends
	p := b.start(once("leave stay"))
	heir := b.await(is(event.Note, "w")).PID
	b.awaitExit(p)
	b.awaitGone(heir)
	if e := b.await(about(event.Exited, "child")); e.Exit != "exit 5" {
		t.Errorf("ended with %q", e.Exit)
	}
}

// golang/go#23019
func TestSweep_a_grandchild_that_left_the_group_and_holds_the_pipe_hangs_nobody(t *testing.T) {
	t.Parallel()
	policy := quick
	policy.WaitDelay = 50 * time.Millisecond
	b := newBench(t, Config{Policy: policy})
	p := b.start(once("leave escape"))
	heir := b.await(is(event.Note, "w")).PID
	t.Cleanup(func() { killPid(heir) })
	b.awaitExit(p)
	if _, err := Stopped(heir); err != nil {
		t.Errorf("the grandchild should live: %v", err)
	}
	notes := b.all(about(event.Note, "child"))
	if len(notes) != 1 || !strings.Contains(notes[0].Reason, "held its output open") {
		t.Errorf("notes %+v", notes)
	}
	if e := b.await(about(event.Exited, "child")); e.Exit != "exit 5" {
		t.Errorf("ended with %q", e.Exit)
	}
}
