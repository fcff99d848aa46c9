package scenario

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"notifylab/internal/notify"
	"notifylab/internal/passes"
)

// A PassRecord is what else a scenario of the second chapter has seen.
type PassRecord struct {
	Published []passes.Expired
	Log       [][]string               // the ids that are in the log in the end, by partition and offset
	Left      map[string]string        // the passes that are still there, and whose
	Cursors   map[string]map[int]int64 // by group and partition
}

// Waits for a partition to show its entries: one that must have some, and one that
// may have none.
const (
	fullWait  = 5 * time.Second
	emptyWait = 200 * time.Millisecond
)

// takeIn takes in what passes, reactions and readers have left. All of them are gone.
func (s *passStage) takeIn(ctx context.Context, r *Record) (err error) {
	p := &r.Passes
	p.Published = s.events
	for _, x := range s.events {
		for _, c := range notify.Channels() {
			if n := s.provider.Accepted(x.ID, c); n > 0 || c == notify.Push {
				r.Ledger[Subject{x.ID, string(c)}] = n
			}
		}
	}
	for _, queue := range s.queues {
		if r.Ready[s.Namespace.Bare(queue)], err = s.settled(ctx, queue); err != nil {
			return err
		}
	}
	if p.Left, err = s.register.All(ctx); err != nil {
		return err
	}
	if p.Cursors, err = s.cursors(ctx); err != nil {
		return err
	}
	p.Log, err = s.contents(ctx)
	return err
}

// cursors returns how far each group is.
func (s *passStage) cursors(ctx context.Context) (map[string]map[int]int64, error) {
	names, err := passes.Groups(ctx, s.redis, s.Namespace)
	all := map[string]map[int]int64{}
	for _, name := range names {
		state, err := passes.NewGroup(s.redis, s.log, name, 0).Look(ctx)
		if err != nil {
			return nil, err
		}
		all[name] = state.Cursors
	}
	return all, err
}

// contents reads the whole log, all partitions at the same time. It takes nothing out.
func (s *passStage) contents(ctx context.Context) ([][]string, error) {
	ids := make([][]string, s.log.Partitions)
	var g errgroup.Group
	for i := range ids {
		wait := emptyWait
		if slices.ContainsFunc(s.events, func(x passes.Expired) bool { return s.log.Partition(x.Pass) == i }) {
			wait = fullWait
		}
		g.Go(func() error {
			entries, err := s.conn.ReadAll(ctx, s.log.Queue(i), wait)
			for _, e := range entries {
				ids[i] = append(ids[i], e.ID)
			}
			return err
		})
	}
	return ids, g.Wait()
}
