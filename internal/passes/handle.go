package passes

import (
	"context"
	"fmt"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
)

// A handling is what happens to one record.
type handling struct {
	*tenure
	Record
	armed lab.Trap
}

// handle sees one record to its end: read, handle, commit, or the last two the other
// way round. It returns false if nothing more may be read in this generation.
func (t *tenure) handle(ctx context.Context, e broker.Entry) bool {
	h := &handling{tenure: t, Record: Record{Partition: t.byStream[e.Stream], Offset: e.Offset}}
	var err error
	if h.Expired, err = Decode(e.Body); err != nil {
		// A log has no place to put it aside, and time does not mend it.
		h.ID = e.ID
		h.say(event.Event{Kind: event.Note, Reason: "passed over, it is no event of a pass: " + err.Error()})
		return h.commit(ctx)
	}
	h.arm(e)
	h.say(event.Event{Kind: event.Read})
	h.crash(AfterRead)
	if h.CommitFirst {
		h.crash(BeforeCommit)
		if !h.commit(ctx) {
			return false
		}
		h.crash(AfterCommit)
		h.once(ctx)
		return true
	}
	if !h.persist(ctx) {
		return false
	}
	h.crash(BeforeCommit)
	if !h.commit(ctx) {
		return false
	}
	h.crash(AfterCommit)
	return true
}

// once calls the handler, whatever it says: the cursor is behind the record.
func (h *handling) once(ctx context.Context) {
	if err := h.Handle(context.WithoutCancel(ctx), h.Record); err != nil {
		h.note("not tried again, it was committed before: " + err.Error())
	}
}

// persist calls the handler until it takes the record. It returns false if the
// generation moves before that, or ctx ends: the record is read again then.
func (h *handling) persist(ctx context.Context) bool {
	for attempt := 1; ; attempt++ {
		err := h.Handle(context.WithoutCancel(ctx), h.Record)
		if err == nil {
			return true
		}
		h.say(event.Event{Kind: event.Retry, Attempt: attempt, BackoffMS: h.Backoff.Milliseconds(), Reason: err.Error()})
		timer := time.NewTimer(h.Backoff)
		select {
		case <-timer.C:
		case <-h.moved:
		case <-ctx.Done():
		}
		timer.Stop()
		if h.over(ctx) {
			return false
		}
	}
}

// commit moves the cursor behind the record, and insists until Redis answers. It
// returns false if the group refuses, or if ctx ends and Redis does not answer: the
// record is read again by whoever is next.
func (h *handling) commit(ctx context.Context) bool {
	var said Commit
	err := h.again(ctx, "Redis", func() (err error) {
		// Told to stop it has one more try.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*idem.Timeout)
		defer cancel()
		said, err = h.Group.Commit(ctx, h.state.Generation, h.Partition, h.Offset)
		return err
	})
	switch {
	case err != nil:
		h.note("not committed: " + err.Error())
		return false
	case !said.Committed:
		h.say(event.Event{Kind: event.CommitRefused, Reason: refusal(h.state.Generation, h.Offset, said)})
		return false
	}
	h.say(event.Event{Kind: event.Committed})
	return true
}

// refusal says why a group refused to move its cursor to offset.
func refusal(generation, offset int64, said Commit) string {
	if said.Generation != generation {
		return fmt.Sprintf("the group is in generation %d, this is of %d", said.Generation, generation)
	}
	return fmt.Sprintf("the cursor is at %d, this would move it back to %d", said.Cursor, offset)
}

// arm reads the record's crash point. One that is not of this room is said and left
// alone.
func (h *handling) arm(e broker.Entry) {
	if e.Crash == "" || !h.CrashPoints {
		return
	}
	armed, err := lab.ParseArming(e.Crash, Points())
	if err != nil {
		h.note(err.Error())
	}
	h.armed = lab.Trap{Arming: armed, Marks: h.Marks, ID: h.ID, Who: h.Group.Name()}
}

// crash is a crash point: if the record has armed it the process dies here, or stops
// until it is continued. Nothing is said between the line and the end.
func (h *handling) crash(p Point) {
	if !h.armed.Fires(p, h.note) {
		return
	}
	if !h.armed.Stop {
		h.say(event.Event{Kind: event.Crash, Point: string(p)})
		h.Die()
		return
	}
	h.say(event.Event{Kind: event.Stopped, Point: string(p)})
	since := idem.Now()
	h.Suspend()
	h.say(event.Event{Kind: event.Woke, Point: string(p), Elapsed: since.Elapsed().Milliseconds()})
}

// say emits an event about the record.
func (h *handling) say(e event.Event) {
	e.ID, e.User, e.Pass, e.Queue = h.ID, h.User, h.Pass, h.Log.Queue(h.Partition)
	e.Membership = h.in(h.state)
	e.Position = &event.Position{Partition: h.Partition, Offset: h.Offset}
	h.tenure.say(e)
}

func (h *handling) note(text string) { h.say(event.Event{Kind: event.Note, Reason: text}) }
