package scenario

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/passes"
	"notifylab/internal/provider"
	"notifylab/internal/supervise"
)

func competing() Scenario {
	return Scenario{
		Name: "competing", Outcome: Once, Next: "idempotent-handler",
		Tags:  []string{"queue"},
		Title: "two workers on one queue: twice as fast, and out of order",
		Shows: "two workers: twice the throughput, no order across them",
		Help: `Each event takes the provider 20 ms. One worker, then two on the same queue: each event
goes to exactly one of them, and it takes half as long.

The price is shown, not left to luck. Three events; the first two are of the same pass.
The provider holds the first until the third has come. So the second is sent before the
first, and both workers have the same pass in hand at once. The same with a single
active consumer: one worker has everything while the other waits, so order is kept, and
there is nothing gained but a stand-in.

What to look for
  "one worker" and "two workers", and how long each took. Then SENT of the second before
  the first. On the queue with --single all lines are of one worker.`,
		ByHand: `  notifylab provider --delay 200ms                                                      # one terminal
  notifylab reaction notify --name worker-a --provider-url http://127.0.0.1:3200        # another
  notifylab reaction notify --name worker-b --provider-url http://127.0.0.1:3200        # a third
  notifylab expire --count 20                                                           # a fourth: they take turns
  # with --queue single --single on both, one of them has all until it ends`,
		play:  onPasses(playCompeting),
		judge: judgeCompeting,
	}
}

const (
	workTime   = 20 * time.Millisecond
	paceEvents = 16  // of one measurement
	speedUp    = 1.6 // that two workers have to reach at least
	maxPaces   = 12  // a busy machine only makes it longer: the shortest of each counts
)

func playCompeting(ctx context.Context, s *passStage) error {
	a, err := s.reaction(ctx, "worker-a", "jobs", reactNotify)
	if err != nil {
		return err
	}
	var b *supervise.Process
	one, two := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for i := 0; i < maxPaces && (b == nil || float64(one) < speedUp*float64(two)); i++ {
		if b != nil {
			if err := b.Stop(ctx); err != nil {
				return err
			}
		}
		took, err := s.pace(ctx, "one worker")
		if err != nil {
			return err
		}
		one = min(one, took)
		if b, err = s.reaction(ctx, "worker-b", "jobs", reactNotify); err != nil {
			return err
		}
		if took, err = s.pace(ctx, "two workers"); err != nil {
			return err
		}
		two = min(two, took)
	}
	if err := s.race(ctx, "jobs", 0); err != nil {
		return err
	}
	for _, p := range []*supervise.Process{a, b} {
		if err := p.Stop(ctx); err != nil {
			return err
		}
	}
	for _, name := range []string{"single-a", "single-b"} {
		if _, err := s.reaction(ctx, name, "single", reactNotify, "--single"); err != nil {
			return err
		}
	}
	return s.race(ctx, "single", 2)
}

// pace measures how long it takes the workers that there are to do some events.
func (s *passStage) pace(ctx context.Context, who string) (time.Duration, error) {
	s.provider.SetFaults(provider.Faults{Delay: []provider.Delay{{For: workTime}}})
	posts := s.expire(paceEvents)
	s.hush(posts)
	began := time.Now()
	if err := s.enqueue(ctx, "jobs", posts...); err != nil {
		return 0, err
	}
	if err := s.acked(ctx, posts...); err != nil {
		return 0, err
	}
	took := time.Since(began)
	s.tell(event.Event{Owner: who, Messages: paceEvents, Elapsed: took.Milliseconds(),
		Reason: fmt.Sprintf("did %d events of %s each in %.2fs", paceEvents, event.Short(workTime), took.Seconds())})
	return took, nil
}

// race holds the first of three events at the provider until the third has come, and if
// so many wait behind it, since it never will, until that is so.
func (s *passStage) race(ctx context.Context, queue string, behind int) error {
	first := s.expire(1)[0]
	rest := []passes.Post{s.expires(first.Pass), s.expire(1)[0]}
	s.provider.SetFaults(provider.Faults{Gate: []provider.Gate{{Hold: first.ID, Until: rest[1].ID}}})
	if err := s.enqueue(ctx, queue, first); err != nil {
		return err
	}
	err := s.provider.Await(ctx, func(l *provider.Ledger) bool { return l.Held(first.ID, notify.Push) > 0 })
	if err != nil {
		return never{"the provider was never asked for " + first.ID, s.reason(first.ID, notify.Push), context.Cause(ctx)}
	}
	if err := s.enqueue(ctx, queue, rest...); err != nil {
		return err
	}
	if behind > 0 {
		if err := s.waiting(ctx, queue, behind); err != nil {
			return err
		}
		s.tell(event.Event{ID: first.ID, Messages: behind, Reason: fmt.Sprintf("%d wait behind the first, although another worker is there", behind)})
		s.provider.SetFaults(provider.Faults{})
	}
	return s.acked(ctx, append([]passes.Post{first}, rest...)...)
}

func judgeCompeting(_ cast, r *Record) Verdict {
	p := &r.Passes
	all := p.ids(1, len(p.Published))
	races := len(all) - 2*raceEvents
	paced, raced, single := p.ids(1, races), p.ids(races+1, races+raceEvents), p.ids(races+raceEvents+1, len(all))
	inverted := p.ids(races+1, races+2)
	slices.Reverse(inverted)
	return judgedPasses(r, all,
		r.eachTold("each event", all, told, 1),
		eachTime("each event, in the hands of", "worker", append(slices.Clone(paced), raced...), 1, func(id string) int { return len(r.hands(id)) }),
		r.faster(),
		r.sequence("two workers, the first two", inverted, inverted),
		r.overlap("two workers, the same pass", raced, true),
		r.sequence("single active consumer", single, single),
		r.overlap("single active consumer", single, false),
		r.soleHand("single active consumer", single),
		r.ready("passes.jobs", 0),
		r.ready("passes.single", 0),
	).as(Once, "each event went to one worker, twice as fast; the order between two workers is nobody's")
}

// raceEvents is how many events a race has.
const raceEvents = 3

// hands returns who received an event.
func (r *Record) hands(id string) (names []string) {
	for _, e := range r.Events {
		if e.Kind == event.Received && e.ID == id && !slices.Contains(names, e.Source) {
			names = append(names, e.Source)
		}
	}
	return names
}

// faster checks that two workers were as much faster than one, at the best of each.
func (r *Record) faster() Finding {
	f := Finding{What: "two workers, throughput", Want: fmt.Sprintf("at least %.1f ×", speedUp), Got: "never measured"}
	best := map[string]int64{}
	for _, e := range r.Events {
		if e.Kind != event.Note || e.Source != source || e.Messages != paceEvents {
			continue
		}
		if took, measured := best[e.Owner]; !measured || e.Elapsed < took {
			best[e.Owner] = max(e.Elapsed, 1)
		}
	}
	one, two := best["one worker"], best["two workers"]
	if one > 0 && two > 0 {
		ratio := float64(one) / float64(two)
		f.Got, f.OK = fmt.Sprintf("%.2f ×", ratio), ratio >= speedUp
	}
	return f
}

// overlap checks whether two workers had events of one pass in hand at the same time,
// by their own clocks, which are one.
func (r *Record) overlap(what string, ids []string, want bool) Finding {
	text := map[bool]string{true: "in two hands at once", false: "in one hand at a time"}
	f := Finding{What: what, Want: text[want]}
	type hold struct {
		id, who  string
		from, to time.Time
	}
	var holds []hold
	for _, e := range r.Events {
		if !slices.Contains(ids, e.ID) {
			continue
		}
		switch e.Kind {
		case event.Received:
			holds = append(holds, hold{id: e.ID, who: e.Source, from: e.Time})
		case event.Acked:
			for i := range holds {
				if holds[i].id == e.ID && holds[i].who == e.Source {
					holds[i].to = e.Time
				}
			}
		}
	}
	got := false
	for i, a := range holds {
		for _, b := range holds[i+1:] {
			if a.who != b.who && r.Passes.pass(a.id) == r.Passes.pass(b.id) && a.from.Before(b.to) && b.from.Before(a.to) {
				got = true
				f.IDs = []string{a.id, b.id}
			}
		}
	}
	f.Got, f.OK = text[got], got == want && len(holds) > 0
	if len(holds) == 0 {
		f.Got = "in nobody's"
	}
	return f
}

// soleHand checks that one worker had all of these.
func (r *Record) soleHand(what string, ids []string) Finding {
	var names []string
	for _, id := range ids {
		for _, name := range r.hands(id) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	f := Finding{What: what, Want: "1 worker has all", Got: fmt.Sprintf("%s: %v", quantity(len(names), "workers"), names), OK: len(names) == 1, IDs: ids}
	if f.OK {
		f.Got = f.Want
	}
	return f
}
