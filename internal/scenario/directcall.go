package scenario

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
	"notifylab/internal/supervise"
)

// DefaultSpike is how many passes expire at once in direct-call's third act.
const DefaultSpike = 2000

func directCall() Scenario {
	return Scenario{
		Name: "direct-call", Spikes: true, Outcome: Once, Next: "fifo",
		Tags:  []string{"queue"},
		Title: "one call that does it all, and the same as an event",
		Shows: "notify ✗: a caller waits, and fails; a queue decouples",
		Help: `A pass expires. In one process and one stack the caller fetches the pass, notifies its
user, deletes the pass. The second step throws: the third is never done, and the pass is
still there. When the provider is slow the caller waits for the sum.

Then the watcher only announces the event, and each reaction has a queue of its own. The
same failure is retried, and delete-pass never hears of it. Then a spike: 2,000 passes
expire at once (--spike) while the provider holds the first one. The watcher is back in a
moment, the rest waits in the queue. Last a third reaction, email, is bound while a
watcher runs: that one is not changed, and not even started again.

What to look for
  FAILED, "1 step behind it not done"; PRODUCED before SENT, with the queue; RETRY and
  then SENT; PRODUCED 2000 events, and passes.notify holds 1999.`,
		ByHand: `  notifylab provider --refuse push=503                                       # one terminal
  notifylab expire --direct --provider-url http://127.0.0.1:3200 || true     # another: FAILED, the pass stays
  notifylab reaction notify & notifylab reaction delete-pass &               # a queue each
  notifylab expire --count 2000                                              # back at once
  notifylab expire --count 0 --every 100ms                                   # meanwhile, elsewhere: notifylab reaction email`,
		play:  onPasses(playDirectCall),
		judge: judgeDirectCall,
	}
}

// The events of the acts, by number: the call that fails, the one that waits, the one
// that is retried. The spike begins behind them, and the rest behind that.
const (
	callFails = 1 + iota
	callWaits
	callRetried
	spikeFirst
)

// slowCall is how long the provider takes while a caller waits.
const slowCall = 100 * time.Millisecond

func playDirectCall(ctx context.Context, s *passStage) error {
	if err := s.callDirectly(ctx); err != nil {
		return err
	}
	notifier, err := s.reaction(ctx, reactNotify, reactNotify, reactNotify)
	if err != nil {
		return err
	}
	if err := s.callByQueue(ctx); err != nil {
		return err
	}
	if err := s.spike(ctx); err != nil {
		return err
	}
	if err := s.bindThird(ctx); err != nil {
		return err
	}
	// It would wait for the provider; like this it leaves all where it is.
	return s.kill(ctx, notifier)
}

// watcher starts an expiry watcher on events from the given number on, and returns at
// its first word.
func (s *passStage) watcher(ctx context.Context, name string, first, count int, flags ...string) (*supervise.Process, error) {
	args := []string{"expire", "--name", name, "--prefix", string(s.Namespace), "--first", fmt.Sprint(first), "--count", fmt.Sprint(count)}
	return s.part(ctx, name, append(args, flags...)...)
}

// produced waits until a watcher has done all that it was to do.
func (s *passStage) produced(ctx context.Context, name string) (event.Event, error) {
	return s.hear(ctx, 0, name+" was never done", func(e event.Event) bool { return e.Kind == event.Produced && e.Source == name })
}

func (s *passStage) callDirectly(ctx context.Context) error {
	s.expire(callRetried) // as the watchers number them
	refused := provider.Refusal{Target: provider.Target{ID: s.id(callFails)}, Status: http.StatusServiceUnavailable}
	slow := provider.Delay{Target: provider.Target{ID: s.id(callWaits)}, For: slowCall}
	s.provider.SetFaults(provider.Faults{Refuse: []provider.Refusal{refused}, Delay: []provider.Delay{slow}})
	for n := callFails; n <= callWaits; n++ {
		name := fmt.Sprintf("caller-%d", n)
		if _, err := s.watcher(ctx, name, n, 1, "--direct"); err != nil {
			return err
		}
		if _, err := s.produced(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (s *passStage) callByQueue(ctx context.Context) error {
	if _, err := s.reaction(ctx, reactDelete, reactDelete, reactDelete); err != nil {
		return err
	}
	id := s.id(callRetried)
	s.provider.SetFaults(provider.Faults{Refuse: []provider.Refusal{{Target: provider.Target{ID: id}, Status: http.StatusServiceUnavailable}}})
	if _, err := s.watcher(ctx, "watcher-1", callRetried, 1); err != nil {
		return err
	}
	if _, err := s.produced(ctx, "watcher-1"); err != nil {
		return err
	}
	if _, err := s.hear(ctx, 0, "it was never refused", func(e event.Event) bool { return e.Kind == event.Retry && e.ID == id }); err != nil {
		return err
	}
	s.provider.SetFaults(provider.Faults{})
	for _, by := range []string{reactNotify, reactDelete} {
		_, err := s.hear(ctx, 0, by+" did not come to its end", func(e event.Event) bool { return e.Kind == event.Acked && e.ID == id && e.Source == by })
		if err != nil {
			return err
		}
	}
	return nil
}

// spike has many passes expire at once while the provider holds the first of them. What
// waits then, waits: nobody has to see it done.
func (s *passStage) spike(ctx context.Context) error {
	first := s.id(spikeFirst)
	s.provider.SetFaults(provider.Faults{Hang: []provider.Target{{ID: first}}})
	s.hush(s.expire(s.Spike))
	if _, err := s.watcher(ctx, "watcher-2", spikeFirst, s.Spike); err != nil {
		return err
	}
	if _, err := s.produced(ctx, "watcher-2"); err != nil {
		return err
	}
	err := s.provider.Await(ctx, func(l *provider.Ledger) bool { return l.Held(first, notify.Push) > 0 })
	if err != nil {
		return never{"the provider was never asked for " + first, s.reason(first, notify.Push), context.Cause(ctx)}
	}
	if err := s.waiting(ctx, reactNotify, s.Spike-1); err != nil {
		return err
	}
	s.tell(event.Event{Messages: s.Spike - 1, Reason: fmt.Sprintf("passes.notify holds %d: the watcher is done, the provider has not taken the first", s.Spike-1)})
	return nil
}

// bindThird binds a third reaction while a watcher runs.
func (s *passStage) bindThird(ctx context.Context) error {
	from := len(s.events) + 1
	w, err := s.watcher(ctx, "watcher-3", from, 0, "--every", "10ms")
	if err != nil {
		return err
	}
	if _, err := s.reaction(ctx, reactEmail, reactEmail, reactEmail); err != nil {
		return err
	}
	_, err = s.hear(ctx, 0, "the third reaction got nothing", func(e event.Event) bool { return e.Kind == event.Acked && e.Source == reactEmail })
	if err != nil {
		return err
	}
	if err := w.Stop(ctx); err != nil {
		return err
	}
	done, err := s.produced(ctx, "watcher-3")
	if err != nil {
		return err
	}
	posts := s.expire(done.Messages)
	last := posts[len(posts)-1].ID
	_, err = s.hear(ctx, 0, "the third reaction did not get the last one", func(e event.Event) bool {
		return e.Kind == event.Acked && e.Source == reactEmail && e.ID == last
	})
	return err
}

func judgeDirectCall(_ cast, r *Record) Verdict {
	p := &r.Passes
	spike := r.spikeSize()
	fails, waits, retried := p.ids(callFails, callFails), p.ids(callWaits, callWaits), p.ids(callRetried, callRetried)
	inSpike := p.ids(spikeFirst, spikeFirst+spike-1)
	third := p.ids(spikeFirst+spike, len(p.Published))
	is := func(kind event.Kind, source, id string) func(event.Event) bool {
		return func(e event.Event) bool { return e.Kind == kind && e.Source == source && (id == "" || e.ID == id) }
	}
	return judgedPasses(r, retried,
		r.eachTold("direct, the second step throws", fails, told, 0),
		r.passesLeft("direct, it threw", fails, fails),
		r.eachSaid("direct, it threw", "caller-1", event.Failed, fails, 1),
		r.eachTold("direct, a slow provider", waits, told, 1),
		r.waited("caller-2"),
		r.order("queue, the watcher before the push", is(event.Produced, "watcher-1", ""), is(event.Sent, reactNotify, p.id(callRetried)), retried...),
		r.order("queue, refused and then sent", is(event.Retry, reactNotify, p.id(callRetried)), is(event.Sent, reactNotify, p.id(callRetried)), retried...),
		r.eachTold("queue, after a retry", retried, told, 1),
		r.eachSaid("queue, the pass deleted", reactDelete, event.Deleted, retried, 1),
		r.finished("watcher-2", spike),
		r.eachTold("the spike and later, while it is held", append(slices.Clone(inSpike), third...), told, 0),
		r.eachSaid("the spike, announced", "watcher-2", event.Queued, inSpike, 1),
		r.backlog("the spike, notify", len(inSpike)+len(third)),
		r.samePID("watcher-3", third),
		r.fromThenOn(third),
	).as(Once, "announced and not called: the watcher waits for nobody, a failure stays where it is, and reactions come and go")
}

// spikeSize is how many events the second watcher says that it has announced.
func (r *Record) spikeSize() int {
	for _, e := range r.Events {
		if e.Kind == event.Produced && e.Source == "watcher-2" {
			return e.Messages
		}
	}
	return 0
}

// waited checks that a caller came back only when the provider did.
func (r *Record) waited(name string) Finding {
	f := Finding{What: "direct, the caller waits for the sum", Want: "at least " + event.Short(slowCall), Got: "it never came back"}
	for _, e := range r.Events {
		if e.Kind == event.Produced && e.Source == name {
			f.Got, f.OK = fmt.Sprintf("%d ms", e.Elapsed), e.Elapsed >= slowCall.Milliseconds()
		}
	}
	if f.OK {
		f.Got = f.Want
	}
	return f
}

// finished checks that a watcher was done with so many, and nothing had failed.
func (r *Record) finished(name string, want int) Finding {
	f := Finding{What: "the spike, the watcher", Want: quantity(want, "events") + " announced", Got: "never done"}
	for _, e := range r.Events {
		if e.Kind == event.Produced && e.Source == name {
			f.Got = quantity(e.Messages, "events") + " announced"
			if e.Reason != "" {
				f.Got += ", " + e.Reason
			}
		}
	}
	f.OK = want > 0 && f.Got == f.Want
	return f
}

// backlog checks that a reaction's queue holds all that it was never asked to give back.
func (r *Record) backlog(what string, want int) Finding {
	f := r.ready("passes."+reactNotify, want)
	f.What = what + ", nothing lost: " + f.What
	return f
}

// samePID checks that one process announced all of these.
func (r *Record) samePID(name string, ids []string) Finding {
	var pids []int
	for _, e := range r.Events {
		if e.Kind == event.Queued && slices.Contains(ids, e.ID) && !slices.Contains(pids, e.PID) {
			pids = append(pids, e.PID)
		}
	}
	return Finding{What: "a third reaction, " + name, Want: "1 process, the same", Got: fmt.Sprintf("%d process, the same", len(pids)), OK: len(pids) == 1, IDs: ids}
}

// fromThenOn checks that the third reaction did not get the first of these, and each
// from the first one on that it got, once.
func (r *Record) fromThenOn(ids []string) Finding {
	f := Finding{What: "a third reaction, from when it is bound", Want: "every event, once", Got: "none"}
	first, _ := next(r.Events, func(e event.Event) bool { return e.Kind == event.Received && e.Source == reactEmail })
	bound := slices.Index(ids, first.ID)
	if bound < 0 {
		return f
	}
	var wrong []string
	for i, id := range ids {
		want := 1
		if i < bound {
			want = 0
		}
		if n := r.Ledger[Subject{id, string(notify.Email)}]; n != want || i == 0 && n > 0 {
			wrong, f.IDs = append(wrong, fmt.Sprintf("%s × %d", brief(id), n)), append(f.IDs, id)
		}
	}
	return f.ended(len(ids) == 0, "none was published", wrong)
}
