package scenario

import (
	"context"

	"notifylab/internal/notify"
	"notifylab/internal/provider"
)

func partitions() Scenario {
	return Scenario{
		Name: "partitions", Outcome: Once, Next: "consumer-group",
		Tags:  []string{"log"},
		Title: "a log in four partitions: order within each, none between them",
		Shows: "a pass stays in one partition, in order; across them none",
		Help: `The log is split into four partitions, passes.0 to passes.3. An event goes into the one
that its pass id hashes to, so all that happens to a pass is in one place and in order.
Two readers share the partitions out and work at the same time.

Nothing is said about the order of two passes. Here that is shown and not left to luck:
the provider holds an event of P0 until a later one of P3 has come. So what was published
first is sent last, and within each pass everything is still in order.

What to look for
  P0@0 is READ first and SENT last of the first four. Each pass has one P, in all lines.` + inProduction,
		ByHand: `  notifylab reader c1 & notifylab reader c2 &        # two members, two partitions each
  notifylab expire --log --count 12 --passes 4       # QUEUED -> passes.N: the same N for each pass
  notifylab groups`,
		play:  onPasses(playPartitions),
		judge: judgePartitions,
	}
}

// The first events are the inversion: of P0, and then three of P3, of which the third
// lets the first go. Others follow, of as many passes as there are in each partition.
const (
	logPartitions  = 4
	inversion      = 4
	partitionsPass = 2 // events of each pass
	partitionsAll  = inversion + partitionsPass*2*logPartitions
)

func playPartitions(ctx context.Context, s *passStage) error {
	if err := s.layLog(ctx, logPartitions); err != nil {
		return err
	}
	if _, err := s.reader(ctx, "c1", reactNotify); err != nil {
		return err
	}
	if _, err := s.reader(ctx, "c2", reactNotify); err != nil {
		return err
	}
	if _, err := s.settle(ctx, 0, reactNotify, "c1", "c2"); err != nil {
		return err
	}
	early := s.expireIn(0)
	pass := s.expireIn(3)
	late := append(pass, s.expires(pass[0].Pass), s.expires(pass[0].Pass))
	s.provider.SetFaults(provider.Faults{Gate: []provider.Gate{{Hold: early[0].ID, Until: late[2].ID}}})
	if err := s.append(ctx, early...); err != nil {
		return err
	}
	err := s.provider.Await(ctx, func(l *provider.Ledger) bool { return l.Held(early[0].ID, notify.Push) > 0 })
	if err != nil {
		return never{"the provider was never asked for " + early[0].ID, s.reason(early[0].ID, notify.Push), context.Cause(ctx)}
	}
	if err := s.append(ctx, late...); err != nil {
		return err
	}
	all := s.expireIn(0, 0, 1, 1, 2, 2, 3, 3)
	for range partitionsPass - 1 {
		for _, p := range all[:2*logPartitions] {
			all = append(all, s.expires(p.Pass))
		}
	}
	if err := s.append(ctx, all...); err != nil {
		return err
	}
	return s.committed(ctx, reactNotify, append(append(early, late...), all...)...)
}

func judgePartitions(_ cast, r *Record) Verdict {
	p := &r.Passes
	all := p.ids(1, partitionsAll)
	first := p.ids(1, 3)
	want := append(p.ids(2, 3), p.ids(1, 1)...)
	return judgedPasses(r, all,
		number("published", partitionsAll, len(p.Published), "events"),
		r.logHolds(all),
		r.keysStay(all),
		r.orderKept(all),
		r.eachTold("every event", all, told, 1),
		r.oneOwner(reactNotify),
		r.apart("the inversion", p.id(1), p.id(2)),
		r.sequence("published first, sent last", first, want),
	).as(Once, "a pass has its partition and its order; between two partitions there is none")
}
