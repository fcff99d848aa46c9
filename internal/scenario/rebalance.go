package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/passes"
	"notifylab/internal/provider"
	"notifylab/internal/supervise"
)

func rebalance() Scenario {
	return Scenario{
		Name: "rebalance", Outcome: Twice,
		Tags:  []string{"log", "kill"},
		Title: "a member dies, survivors resume; one wakes too late",
		Shows: "a dead one's partitions move; a late commit is refused",
		Help: `Two members have two partitions each. One is killed in mid-work. When it was silent for
its time to live, the other one gets its partitions and resumes behind the last committed
offset: only what was not committed is read again, and nothing is lost.

Then a third member joins, and is stopped between its work and its commit, as by a long
pause of its machine. The survivor takes over, does that event again, and goes on. When
the stopped one wakes it commits what it had in hand: COMMIT REFUSED, its generation is
over. The fence protects the cursor. It can't undo the work: that event was sent twice,
and only an idempotent handler makes that harmless.

What to look for
  REBALANCED "c1 gone", and how long that took; READ at the cursor + 1; STOPPED, WOKE,
  COMMIT REFUSED; and c3 is in the group again after that.` + inProduction,
		ByHand: `  notifylab reader c1    # one terminal
  notifylab reader c2    # another
  notifylab expire --log --count 40 --passes 8 --every 100ms && notifylab groups    # a third; kill -9 c1 meanwhile
  # then kill -STOP a reader, wait for REBALANCED, and kill -CONT it`,
		play:  onPasses(playRebalance),
		judge: judgeRebalance,
	}
}

// The events: one of each partition that both handle; then one that c1 has in hand when
// it is killed and those behind it; then one with which c3 is stopped and those behind.
const (
	rebalanceFirst = logPartitions
	killedWith     = rebalanceFirst + 1
	behindKilled   = 2 // in each of the dead one's partitions
	stoppedWith    = killedWith + 2*behindKilled + 1
	rebalanceAll   = stoppedWith + 2*behindKilled
)

// silence is after how long a member counts as dead here.
const silence = 800 * time.Millisecond

func (s *passStage) mortal(ctx context.Context, name string) (*supervise.Process, error) {
	return s.reader(ctx, name, reactNotify, "--ttl", silence.String())
}

func playRebalance(ctx context.Context, s *passStage) error {
	if err := s.layLog(ctx, logPartitions); err != nil {
		return err
	}
	c1, err := s.mortal(ctx, "c1")
	if err != nil {
		return err
	}
	if _, err := s.mortal(ctx, "c2"); err != nil {
		return err
	}
	if _, err := s.settle(ctx, 0, reactNotify, "c1", "c2"); err != nil {
		return err
	}
	first := s.expireIn(0, 1, 2, 3)
	if err := s.append(ctx, first...); err != nil {
		return err
	}
	if err := s.committed(ctx, reactNotify, first...); err != nil {
		return err
	}
	if err := s.killReader(ctx, c1); err != nil {
		return err
	}
	return s.stopReader(ctx)
}

// killReader kills c1, of P0 and P1, while the provider has an event of its in hand.
func (s *passStage) killReader(ctx context.Context, c1 *supervise.Process) error {
	posts := s.expireIn(0, 0, 0, 1, 1)
	victim := posts[0].ID
	s.provider.SetFaults(provider.Faults{Hang: []provider.Target{{ID: victim}}})
	if err := s.append(ctx, posts...); err != nil {
		return err
	}
	err := s.provider.Await(ctx, func(l *provider.Ledger) bool { return l.Held(victim, notify.Push) > 0 })
	if err != nil {
		return never{"the provider was never asked for " + victim, s.reason(victim, notify.Push), context.Cause(ctx)}
	}
	from := s.history.Len()
	if err := s.kill(ctx, c1); err != nil {
		return err
	}
	died := time.Now()
	s.provider.SetFaults(provider.Faults{})
	e, err := s.hear(ctx, from, "c2 did not take over", func(e event.Event) bool {
		return e.Kind == event.Assigned && e.Source == "c2" && len(e.Partitions) == logPartitions
	})
	if err != nil {
		return err
	}
	took := e.Time.Sub(died)
	s.tell(event.Event{
		Membership: event.Membership{Group: reactNotify}, Owner: "c2", Elapsed: took.Milliseconds(),
		Reason: fmt.Sprintf("has taken over after %.2fs: c1 counts as dead when it was silent for %s", took.Seconds(), event.Short(silence)),
	})
	return s.committed(ctx, reactNotify, posts...)
}

// stopReader stops c3, of P2 and P3, between its work and its commit, and wakes it when
// c2 has gone on without it.
func (s *passStage) stopReader(ctx context.Context) error {
	from := s.history.Len()
	c3, err := s.mortal(ctx, "c3")
	if err != nil {
		return err
	}
	if _, err := s.settle(ctx, from, reactNotify, "c2", "c3"); err != nil {
		return err
	}
	posts := armed(passes.BeforeCommit+",stop", s.expireIn(2, 2, 2, 3, 3))
	victim := posts[0].ID
	if err := s.append(ctx, posts...); err != nil {
		return err
	}
	about := func(kind event.Kind) func(event.Event) bool {
		return func(e event.Event) bool { return e.Kind == kind && e.ID == victim }
	}
	if _, err := s.hear(ctx, from, "c3 did not stop", about(event.Stopped)); err != nil {
		return err
	}
	if err := supervise.AwaitStopped(ctx, c3.Pid()); err != nil {
		return err
	}
	if err := s.committed(ctx, reactNotify, posts...); err != nil {
		return err
	}
	if err := s.tellCursors(ctx, "asleep"); err != nil {
		return err
	}
	from = s.history.Len()
	if err := c3.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	_, err = s.hear(ctx, from, "c3 did not try to commit", func(e event.Event) bool {
		return e.Source == "c3" && (about(event.CommitRefused)(e) || about(event.Committed)(e))
	})
	if err != nil {
		return err
	}
	if err := s.tellCursors(ctx, "awake"); err != nil {
		return err
	}
	if _, err = s.settle(ctx, from, reactNotify, "c2", "c3"); err != nil {
		return err
	}
	return s.onlyOnce(map[string]int{"c1": 1, "c2": 1, "c3": 2})
}

// onlyOnce returns an error if a member joined more often than it should: it lived, and
// was too slow to be heard. Nothing can be judged then.
func (s *passStage) onlyOnce(want map[string]int) error {
	joined := map[string]int{}
	for _, e := range s.history.All() {
		if e.Kind == event.Joined {
			joined[e.Source]++
		}
	}
	for name, n := range joined {
		if n > want[name] {
			return never{name + " was put out although it lived", "the machine is too busy", errors.New("it joined again")}
		}
	}
	return nil
}

// tellCursors says where the group's cursors are.
func (s *passStage) tellCursors(ctx context.Context, state string) error {
	at, err := s.cursors(ctx)
	if err != nil {
		return err
	}
	for p := range logPartitions {
		s.tell(event.Event{
			State: state, Membership: event.Membership{Group: reactNotify}, Position: &event.Position{Partition: p, Offset: at[reactNotify][p]},
			Reason: fmt.Sprintf("c3 is %s, the cursor of P%d at %d", state, p, at[reactNotify][p]), Detail: true,
		})
	}
	return nil
}

func judgeRebalance(_ cast, r *Record) Verdict {
	p := &r.Passes
	all := p.ids(1, rebalanceAll)
	killed, stopped := p.ids(killedWith, killedWith), p.ids(stoppedWith, stoppedWith)
	others := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return slices.Contains(stopped, id) })
	v := judgedPasses(r, all,
		r.eachTold("all but one", others, told, 1),
		r.eachTold("the one c3 was stopped with", stopped, told, 2),
		r.eachSaid("read, in hand at the kill", "", event.Read, killed, 2),
		r.killedOnce("c1"),
		r.resumed("c1", "c2"),
		r.resumed("c3", "c2"),
		r.tookOver("c1", "c2"),
		r.said("c3", Subject{p.id(stoppedWith), ""}, event.Stopped, event.Woke, event.CommitRefused),
		r.eachSaid("commits refused", "c3", event.CommitRefused, stopped, 1),
		r.fenced(),
		r.forward(reactNotify),
		r.oneOwner(reactNotify),
		r.logHolds(all),
	)
	return v.as(Twice, "done, stopped before its commit, and done again by the next owner: the fence keeps the cursor, not the work")
}

// killedOnce checks that a part was killed, by SIGKILL, and did not come again.
func (r *Record) killedOnce(name string) Finding {
	f := r.killed(name, 1)
	f.Want = "killed 1 ×, back 0 ×"
	f.OK = f.Got == f.Want
	return f
}

// resumed checks that a survivor read each of the partitions that another had from the
// last committed offset + 1 on, in the first generation in which it had it.
func (r *Record) resumed(gone, survivor string) Finding {
	f := Finding{What: "after " + gone + ", " + survivor + " resumes", Want: "at the cursor + 1"}
	cursor, had := map[int]int64{}, map[int]bool{}
	since, resumed := map[int]bool{}, 0
	var wrong []string
	for _, e := range r.Events {
		if e.Position == nil || e.Group != reactNotify || e.Source == source {
			continue
		}
		switch {
		case e.Kind == event.Committed:
			cursor[e.Partition] = e.Offset
		case e.Kind == event.Read && e.Source == gone:
			had[e.Partition], since[e.Partition] = true, false
		case e.Kind == event.Read && e.Source == survivor && had[e.Partition] && !since[e.Partition]:
			since[e.Partition] = true
			resumed++
			at, ever := cursor[e.Partition]
			if ever && e.Offset != at+1 || !ever && e.Offset != 0 {
				wrong = append(wrong, fmt.Sprintf("P%d at %d, committed was %d", e.Partition, e.Offset, at))
				f.IDs = append(f.IDs, e.ID)
			}
		}
	}
	return f.ended(resumed == 0, "never", wrong)
}

// tookOver checks that the survivor found the other one gone, which did not leave, and
// that it was said how long that took.
func (r *Record) tookOver(gone, survivor string) Finding {
	f := Finding{What: survivor + " takes over", Want: gone + " was silent, and is out", Got: "never"}
	for _, e := range r.Events {
		switch {
		case e.Kind == event.Left && e.Source == gone:
			f.Got, f.OK = gone+" left", false
			return f
		case e.Kind == event.Rebalanced && e.Source == survivor && e.Reason == gone+" gone":
			f.Got = "not noted"
		case e.Kind == event.Note && e.Source == source && e.Owner == survivor && e.Elapsed > 0 && f.Got == "not noted":
			f.Got, f.OK = f.Want, true
		}
	}
	return f
}

// fenced checks that no cursor moved when the sleeper woke and tried to commit.
func (r *Record) fenced() Finding {
	f := Finding{What: "cursors, c3 asleep and awake", Want: "the same"}
	at := map[string]map[int]int64{"asleep": {}, "awake": {}}
	for _, e := range r.Events {
		if e.Kind == event.Note && e.Source == source && e.Position != nil && at[e.State] != nil {
			at[e.State][e.Partition] = e.Offset
		}
	}
	var moved []string
	for p, before := range at["asleep"] {
		if after, seen := at["awake"][p]; !seen || after != before {
			moved = append(moved, fmt.Sprintf("P%d from %d to %d", p, before, after))
		}
	}
	slices.Sort(moved)
	return f.ended(len(at["asleep"]) != logPartitions, "never looked at", moved)
}
