package passes

import (
	"context"
	"fmt"
	"sync"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
)

// A tenure is a member's time in one generation: its partitions don't change in it.
type tenure struct {
	*Member
	state State
	owned []int

	reader   *broker.Reader // nil for an idle member
	byStream map[string]int
	moved    chan struct{} // closed: the generation is over, or may be
	moveOnce sync.Once
}

func newTenure(m *Member, s State) *tenure {
	t := &tenure{Member: m, state: s, owned: Owned(s.Owners(), m.Name), byStream: map[string]int{}, moved: make(chan struct{})}
	for _, p := range t.owned {
		t.byStream[m.Log.Queue(p)] = p
	}
	return t
}

// run reads until the generation has moved or ctx ends, and returns nil then, after
// what is in hand has come to its end. An error means that nothing can be read on
// this connection any more.
func (t *tenure) run(ctx context.Context) error {
	t.say(event.Event{
		Kind: event.Assigned, Membership: t.in(t.state),
		Assignment: &event.Assignment{Members: t.state.Names(), Partitions: t.owned},
	})
	// A member in mid-work is alive, told to stop or not.
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	var heart sync.WaitGroup
	heart.Go(func() { t.beat(beating) })
	defer heart.Wait()
	defer stop()

	var entries <-chan broker.Entry // an idle member's: never one
	if len(t.owned) > 0 {
		reader, err := t.open(ctx)
		if err != nil {
			return err
		}
		defer reader.Close()
		t.reader, entries = reader, reader.Entries()
	}
	for !t.over(ctx) {
		select {
		case e, ok := <-entries:
			if !ok {
				return t.reader.Err()
			}
			// Both may be ready, and then select takes either.
			if t.over(ctx) || !t.handle(ctx, e) {
				return nil
			}
			if err := t.reader.Ack(e); err != nil {
				return err
			}
		case <-t.moved:
		case <-ctx.Done():
		}
	}
	return nil
}

// open starts to read each partition behind its cursor.
func (t *tenure) open(ctx context.Context) (*broker.Reader, error) {
	var readings []broker.Reading
	for _, p := range t.owned {
		from := broker.AtFirst()
		if cursor, ok := t.state.Cursors[p]; ok {
			from = broker.At(cursor + 1)
		}
		readings = append(readings, broker.Reading{Stream: t.Log.Queue(p), From: from})
	}
	reader, err := t.conn.Read(ctx, t.Prefetch, readings...)
	if err != nil {
		return nil, fmt.Errorf("read the partitions %v: %w", t.owned, err)
	}
	return reader, nil
}

// over says whether nothing more may be begun: the member was told to stop, the
// generation has moved, or it was silent for so long that it may have.
func (t *tenure) over(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	select {
	case <-t.moved:
		return true
	default:
		return t.overdue()
	}
}

func (t *tenure) move() { t.moveOnce.Do(func() { close(t.moved) }) }

// beat keeps the member in its group until ctx ends, and hears when the generation has
// moved. It goes on then: what is in hand may take its time.
func (t *tenure) beat(ctx context.Context) {
	tick := time.NewTicker(t.Beat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		// An error is said when nothing else can be done, by renew.
		s, err := t.touch(ctx, t.Group.Beat)
		if err == nil && (s.Generation != t.state.Generation || !s.Has(t.who)) || err != nil && t.overdue() {
			t.move()
		}
	}
}
