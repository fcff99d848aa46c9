package bench

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
	"notifylab/internal/supervise"
)

// recovery measures how long a message takes from the SIGKILL of the worker that
// had it in a send to its next acceptance: by the same worker, started again, and
// by a second one that was there.
func (b *bench) recovery(ctx context.Context) error {
	for i, name := range recoveryNames() {
		if !b.wants(name) {
			continue
		}
		workers := i + 1
		var took []time.Duration
		err := b.withWorkers(ctx, workers, func(w *working) error {
			for i := range b.Recoveries {
				b.say(fmt.Sprintf("%s, kill %d of %d", name, i+1, b.Recoveries))
				t, err := w.recover(ctx, workers > 1)
				for again := 0; errors.Is(err, errByAnother) && again < standstills; again++ {
					t, err = w.recover(ctx, workers > 1)
				}
				if err != nil {
					return err
				}
				took = append(took, t)
			}
			return nil
		}, "--prefetch", "1", "--concurrency", "1", "--idempotency", "on", "--claim-lease", "on", "--provider-key", "off", "--journal", "off")
		if err != nil {
			return err
		}
		b.emit(Figure{Name: name, P50MS: percentile(took, 50), P95MS: percentile(took, 95), Runs: len(took), With: "idle but for one message, journal off"})
	}
	return nil
}

// Of two workers the one that lives sends it, unless the machine stood still for as long
// as the other takes to start.
var errByAnother = errors.New("sent by another worker than was to")

// standstills is how often that may be, for one kill.
const standstills = 3

func recoveryNames() []string { return []string{"recovery", "recovery/second"} }

// working is some workers as processes, with a provider of their own.
type working struct {
	*bench
	provider   *provider.Server
	supervisor *supervise.Supervisor
	history    event.History
}

// withWorkers calls do while so many workers run.
func (b *bench) withWorkers(ctx context.Context, n int, do func(*working) error, flags ...string) error {
	w := &working{bench: b, provider: provider.New(provider.Options{})}
	listening, err := w.provider.Listen("")
	if err != nil {
		return err
	}
	defer listening.Close(context.WithoutCancel(ctx))
	w.supervisor = supervise.New(supervise.Config{
		Sink:     w.history.Add,
		Settled:  func(e event.Event) bool { return e.Kind == event.Acked },
		Hopeless: func(status int) bool { return status == 64 || status == 69 },
	})
	defer w.supervisor.Stop()
	for range n {
		from := w.history.Len()
		_, err := w.supervisor.Start(supervise.Child{Name: "push-worker", Argv: b.workerCommand(listening.URL(), flags...), Env: b.Env})
		if err != nil {
			return err
		}
		if _, err := w.await(ctx, from, event.Ready, ""); err != nil {
			return err
		}
	}
	return do(w)
}

func (b *bench) workerCommand(providerURL string, flags ...string) []string {
	return append([]string{b.Program, "worker", "push", "-o", "json", "--namespace", string(b.Namespace), "--state-dir", b.StateDir,
		"--provider-url", providerURL, "--key-expires", queueExpires.String(), "--declare=false", "--queue-type", string(b.QueueType)}, flags...)
}

// await waits for an event of a kind from the n-th on, about an id if there is one.
func (w *working) await(ctx context.Context, from int, kind event.Kind, id string) (event.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	e, err := w.history.AwaitFrom(ctx, from, func(e event.Event) bool {
		return e.Kind == event.GaveUp || e.Kind == kind && (id == "" || e.ID == id)
	})
	if err == nil && e.Kind == event.GaveUp {
		err = fmt.Errorf("a worker was given up: %s", e.Exit)
	}
	return e, err
}

// patience is how long anything takes that ends long before it.
const patience = 30 * time.Second

func (w *working) recover(ctx context.Context, bySecond bool) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w.provider.SetFaults(provider.Faults{Hang: []provider.Target{{}}})
	w.fills++
	n, from := w.notification(0), w.history.Len()
	if err := w.publishEach(ctx, 1, func(int) error { return nil }); err != nil {
		return 0, err
	}
	err := w.provider.Await(ctx, func(l *provider.Ledger) bool { return l.Held(n.ID, notify.Push) == 1 })
	if err != nil {
		return 0, fmt.Errorf("the provider was not called: %w", err)
	}
	first, err := w.await(ctx, from, event.Received, n.ID)
	if err != nil {
		return 0, err
	}
	w.provider.SetFaults(provider.Faults{}) // the call that hangs goes on hanging
	killed := time.Now()
	if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil {
		return 0, fmt.Errorf("kill the worker: %w", err)
	}
	err = w.provider.Await(ctx, func(l *provider.Ledger) bool { return l.Accepted(n.ID, notify.Push) == 1 })
	took := time.Since(killed)
	if err != nil {
		return 0, fmt.Errorf("it was not sent again: %w", err)
	}
	sent, err := w.await(ctx, from, event.Acked, n.ID)
	switch {
	case err != nil:
		return 0, err
	case bySecond == (sent.Source == first.Source):
		err = fmt.Errorf("%s was killed, and %s sent it: %w", first.Source, sent.Source, errByAnother)
	}
	// Before the next kill it is to be there again.
	if _, dead := w.await(ctx, from, event.Ready, ""); dead != nil {
		return 0, dead
	}
	return took, err
}
