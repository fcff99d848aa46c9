package worker_test

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/provider"
	"notifylab/internal/supervise"
)

// A running worker is in this process.
type running struct {
	r      *rig
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// start runs a worker in this process until it is stopped, with the test at the
// latest, and returns when it is ready.
func (r *rig) start() *running {
	r.t.Helper()
	n := r.history.Len()
	w := r.startUnready()
	r.awaitFrom(n, "ready", func(e event.Event) bool { return e.Kind == event.Ready })
	return w
}

func (r *rig) startUnready() *running {
	ctx, cancel := context.WithCancel(context.Background())
	w := &running{r: r, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.err = r.work(ctx, r.history.Add, noCrash, noCrash)
	}()
	r.t.Cleanup(func() {
		cancel()
		r.provider.SetFaults(provider.Faults{}) // a test that has failed holds calls
		<-w.done
	})
	return w
}

// stop tells the worker to stop and returns when it has, which must be in order.
func (w *running) stop() {
	w.r.t.Helper()
	w.cancel()
	select {
	case <-w.done:
		w.r.ok(w.err)
	case <-w.r.ctx.Done():
		w.r.t.Fatal("the worker does not stop")
	}
}

// supervise runs a worker as a process of its own, which is restarted when it
// dies.
func (r *rig) supervise() *supervise.Process {
	r.t.Helper()
	text, err := json.Marshal(r.options)
	r.ok(err)
	self, err := os.Executable()
	r.ok(err)
	s := supervise.New(supervise.Config{
		Policy: supervise.Policy{Min: time.Millisecond, Max: time.Millisecond, Healthy: limit, Grace: limit, WaitDelay: limit},
		Sink:   r.history.Add,
	})
	r.t.Cleanup(func() { s.Kill(); _ = s.Stop() })
	p, err := s.Start(supervise.Child{Name: "worker", Argv: []string{self}, Env: append(os.Environ(),
		childOptions+"="+string(text), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))})
	r.ok(err)
	return p
}

func (r *rig) stop(p *supervise.Process) {
	r.t.Helper()
	r.ok(p.Stop(r.ctx))
}
