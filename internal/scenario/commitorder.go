package scenario

import (
	"context"

	"notifylab/internal/event"
	"notifylab/internal/passes"
)

func commitOrder() Scenario {
	return Scenario{
		Name: "commit-order", Outcome: Lost, Next: "rebalance",
		Tags:  []string{"log", "kill"},
		Title: "read, process, commit: and a crash in between",
		Shows: "a crash before the commit: again; commit first: lost",
		Help: `A member reads an offset, does the work, and commits: the group's cursor moves behind it.
It is killed three times, and starts again each time at the cursor.

  before the commit   the cursor is still in front of it: read again, done twice. At
                      least once, so handlers have to be idempotent
  after the commit    not read again: the work is safe
  commit first        the cursor was moved, the work was not done: lost

What to look for
  READ P0@0 twice and SENT twice; READ P0@1 once; COMMITTED P0@3 and never SENT. The ones
  behind are SENT: the member could.` + inProduction,
		ByHand: `  notifylab expire --log --crash-at before-commit    # one terminal; then with after-commit
  notifylab reader c1                                # another; start it again when it has died
  notifylab reader c1 --commit-first                 # and with after-commit: lost
  notifylab groups`,
		play:  onPasses(playCommitOrder),
		judge: judgeCommitOrder,
	}
}

func playCommitOrder(ctx context.Context, s *passStage) error {
	if err := s.layLog(ctx, 1); err != nil {
		return err
	}
	for _, point := range []passes.Point{passes.BeforeCommit, passes.AfterCommit} {
		if err := s.crashAtCommit(ctx, point, "c1"); err != nil {
			return err
		}
	}
	return s.crashAtCommit(ctx, passes.AfterCommit, "first", "--commit-first")
}

// crashAtCommit has a member die at a point with one event, and read the next one in
// its second life.
func (s *passStage) crashAtCommit(ctx context.Context, point passes.Point, name string, flags ...string) error {
	p, err := s.reader(ctx, name, reactNotify, flags...)
	if err != nil {
		return err
	}
	posts := armed(point, s.expire(2))
	if err := s.append(ctx, posts...); err != nil {
		return err
	}
	if err := s.gone(ctx, p); err != nil {
		return err
	}
	if p, err = s.reader(ctx, name, reactNotify, flags...); err != nil {
		return err
	}
	if err := s.committed(ctx, reactNotify, posts...); err != nil {
		return err
	}
	if err := s.told(ctx, posts[1]); err != nil { // committed first, it is not yet
		return err
	}
	return p.Stop(ctx)
}

// told waits until an event was sent.
func (s *passStage) told(ctx context.Context, posts ...passes.Post) error {
	return s.each(ctx, "sent", idsOf(posts), func(e event.Event) bool { return e.Kind == event.Sent })
}

func judgeCommitOrder(_ cast, r *Record) Verdict {
	p := &r.Passes
	before, after, first := p.ids(1, 1), p.ids(3, 3), p.ids(5, 5)
	var behind []string
	for n := 2; n <= 6; n += 2 {
		behind = append(behind, p.ids(n, n)...)
	}
	return judgedPasses(r, p.ids(1, 6),
		r.eachTold("crash before the commit", before, told, 2),
		r.eachTold("crash after the commit", after, told, 1),
		r.eachTold("commit first, then the crash", first, told, 0),
		r.eachTold("the ones behind", behind, told, 1),
		r.eachSaid("read, crash before the commit", "", event.Read, before, 2),
		r.eachSaid("read, crash after the commit", "", event.Read, after, 1),
		r.eachSaid("read, commit first", "", event.Read, first, 1),
		r.eachSaid("committed", "", event.Committed, p.ids(1, 6), 1),
		r.eachSaid("crashes", "", event.Crash, append(append(before, after...), first...), 1),
		r.killed("c1", 2),
		r.killed("first", 1),
		r.forward(reactNotify),
		r.cursor(reactNotify, 0, 5),
		r.logHolds(p.ids(1, 6)),
	).as(Lost, "committed first, and never done; crashed before the commit it was done twice, after it once")
}
