package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

const (
	journalLength = 100_000     // events that the stream keeps, about
	journalBuffer = 10_000      // events that wait to be written, at most
	journalBatch  = 500         // events in one round trip
	journalPause  = time.Second // after a write that failed
	journalField  = "event"     // of a stream entry: the event's JSON
)

func journalKey(ns notify.Namespace) string { return ns.Key("lab:journal") }

// A Journal adds one process's events to the stream that all of a namespace share.
// Adding never waits: a sender must not be slowed or stopped by what is only
// written down. While Redis is away events wait, and beyond a bound the oldest are
// dropped and counted. After a lost reply an event can stand in the stream twice.
type Journal struct {
	client Client
	key    string
	memory time.Duration // the stream's time to live; 0: for ever
	length int64         // events that the stream keeps, about
	stop   context.CancelFunc
	ended  chan struct{} // closed when the writer has

	mu      sync.Mutex
	waiting []event.Event
	added   int // events, ever: waiting are the last of them
	flying  int // events in the write that is on its way; they were taken from waiting
	first   int // the number of flying's first
	dropped int
	grown   chan struct{} // holds one: something waits
	moved   chan struct{} // closed and replaced when a write is over
}

// NewJournal opens a namespace's journal for writing. Close must be called.
// Memory is how long the stream outlives its last event; 0: for ever.
func NewJournal(c Client, ns notify.Namespace, memory time.Duration) *Journal {
	ctx, stop := context.WithCancel(context.Background())
	j := &Journal{
		client: c, key: journalKey(ns), memory: memory, length: journalLength, stop: stop, ended: make(chan struct{}),
		grown: make(chan struct{}, 1), moved: make(chan struct{}),
	}
	go j.write(ctx)
	return j
}

// Add puts an event in line.
func (j *Journal) Add(e event.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.waiting) == journalBuffer {
		j.waiting = j.waiting[1:]
		j.dropped++
	}
	j.waiting = append(j.waiting, e)
	j.added++
	select {
	case j.grown <- struct{}{}:
	default:
	}
}

// Dropped returns how many events found no room, ever.
func (j *Journal) Dropped() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.dropped
}

// Flush returns nil when everything that was added before the call is in the
// stream (or was dropped), else, when ctx ends, its cause. Of a journal that is
// closed it does not wait for what came later: that is an error.
func (j *Journal) Flush(ctx context.Context) error {
	upTo, settled, moved := j.progress()
	for settled < upTo {
		select {
		case <-moved:
			_, settled, moved = j.progress()
		case <-ctx.Done():
			return fmt.Errorf("flush journal: %w", context.Cause(ctx))
		case <-j.ended:
			return errors.New("flush journal: it is closed")
		}
	}
	return nil
}

// progress returns how many events were added, up to which one none waits or
// flies, and what is closed when the next write is over. What is dropped is younger
// than what flies, so a mere count of both would not do.
func (j *Journal) progress() (added, settled int, moved <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	settled = j.added - len(j.waiting)
	if j.flying > 0 {
		settled = j.first
	}
	return j.added, settled, j.moved
}

// Close writes what waits, for as long as ctx lets it, and ends the writer, which
// takes the time-out of one command more if Redis is away. What is added later is
// written nowhere. To close it again does nothing.
func (j *Journal) Close(ctx context.Context) error {
	err := j.Flush(ctx)
	j.stop()
	<-j.ended
	return err
}

// write owns the stream's end. A batch is written until it is, so events keep
// their order.
func (j *Journal) write(ctx context.Context) {
	defer close(j.ended)
	for {
		batch := j.take()
		if len(batch) == 0 {
			select {
			case <-j.grown:
				continue
			case <-ctx.Done():
				return
			}
		}
		for j.append(ctx, batch) != nil {
			select {
			case <-time.After(journalPause):
			case <-ctx.Done():
				return
			}
		}
		j.wrote()
	}
}

func (j *Journal) take() []event.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := min(len(j.waiting), journalBatch)
	j.first, j.flying = j.added-len(j.waiting), n
	batch := j.waiting[:n:n]
	j.waiting = j.waiting[n:]
	return batch
}

func (j *Journal) wrote() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.flying = 0
	close(j.moved)
	j.moved = make(chan struct{})
}

func (j *Journal) append(ctx context.Context, batch []event.Event) error {
	_, err := j.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, e := range batch {
			line := strings.TrimSuffix(string(event.Encode(e)), "\n")
			p.XAdd(ctx, &redis.XAddArgs{
				Stream: j.key, MaxLen: j.length, Approx: true, Values: []any{journalField, line},
			})
		}
		if j.memory > 0 {
			p.Expire(ctx, j.key, j.memory)
		}
		return nil
	})
	return err
}
