package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

const (
	journalLength = 100_000     // events that the stream keeps, about
	journalBuffer = 4 << 20     // bytes of events that wait to be written, at most
	journalPack   = 8 << 10     // bytes of events in one entry of the stream, unless one has more: some forty
	journalBatch  = 16          // entries in one write
	journalPause  = time.Second // after a write that failed
	journalField  = "event"     // of an entry: its events' JSON, a line each
)

func journalKey(ns notify.Namespace) string { return ns.Key("lab:journal") }

// A Journal adds one process's events to the stream that all of a namespace share.
// Adding never waits: a sender must not be slowed or stopped by what is only
// written down. While Redis is away events wait, and beyond a bound the oldest are
// dropped and counted. After a lost reply a write's events can stand in the stream
// twice.
//
// What has gathered while a write was on its way goes with the next, packed: an entry
// costs Redis the same whether it holds one event or forty. So under load there are
// many in one, and else each has an entry of its own, at once.
type Journal struct {
	client Client
	key    string
	marks  string
	memory time.Duration // the stream's time to live; 0: for ever
	length int64         // events that the stream keeps, about
	pack   int           // bytes of events in an entry
	stop   context.CancelFunc
	ended  chan struct{} // closed when the writer has

	mu      sync.Mutex
	waiting []pack // the last one is still open
	spare   [][]byte
	size    int // bytes that wait
	held    int // events that wait
	added   int // events, ever: those that wait are the last of them
	flying  int // events in the write that is on its way; they were taken from waiting
	first   int // the number of flying's first
	dropped int
	grown   chan struct{} // holds one: something waits
	moved   chan struct{} // closed and replaced when a write is over
}

// A pack is what one entry holds.
type pack struct {
	lines  []byte
	events int
}

// NewJournal opens a namespace's journal for writing. Close must be called.
// Memory is how long the stream outlives its last event; 0: for ever.
func NewJournal(c Client, ns notify.Namespace, memory time.Duration) *Journal {
	ctx, stop := context.WithCancel(context.Background())
	j := &Journal{
		client: c, key: journalKey(ns), marks: journalMarks(ns), memory: memory, length: journalLength, pack: journalPack,
		stop: stop, ended: make(chan struct{}), grown: make(chan struct{}, 1), moved: make(chan struct{}),
	}
	go j.write(ctx)
	return j
}

// Add puts an event in line.
func (j *Journal) Add(e event.Event) {
	var room [512]byte
	j.AddLine(event.Append(room[:0], e))
}

// AddLine is Add for who has the event as [event.Append] makes it, newline and all. It
// keeps nothing of line.
func (j *Journal) AddLine(line []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := len(j.waiting); n == 0 || len(j.waiting[n-1].lines)+len(line) > j.pack {
		j.waiting = append(j.waiting, pack{lines: j.room()})
	}
	last := &j.waiting[len(j.waiting)-1]
	last.lines = append(last.lines, line...)
	last.events++
	j.added++
	j.held++
	j.size += len(line)
	for j.size > journalBuffer && len(j.waiting) > 1 {
		j.dropped += j.waiting[0].events
		j.shift(1)
	}
	select {
	case j.grown <- struct{}{}:
	default:
	}
}

// room returns what a pack can grow in.
func (j *Journal) room() []byte {
	n := len(j.spare)
	if n == 0 {
		return nil
	}
	room := j.spare[n-1]
	j.spare = j.spare[:n-1]
	return room
}

// shift takes the oldest n packs out of those that wait. It is called with the lock
// held.
func (j *Journal) shift(n int) []pack {
	packs := j.waiting[:n:n]
	j.waiting = j.waiting[n:]
	for _, p := range packs {
		j.held -= p.events
		j.size -= len(p.lines)
	}
	return packs
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
	settled = j.added - j.held
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
		j.wrote(batch)
	}
}

func (j *Journal) take() []pack {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.first = j.added - j.held
	batch := j.shift(min(len(j.waiting), journalBatch))
	j.flying = j.added - j.held - j.first
	return batch
}

// wrote is called when a batch stands in the stream: its room is free again.
func (j *Journal) wrote(batch []pack) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, p := range batch {
		if len(j.spare) < journalBatch && cap(p.lines) <= 2*journalPack {
			j.spare = append(j.spare, p.lines[:0])
		}
	}
	j.flying = 0
	close(j.moved)
	j.moved = make(chan struct{})
}

func (j *Journal) append(ctx context.Context, batch []pack) error {
	var last *redis.StringCmd
	var added *redis.FloatCmd
	var n int64
	_, err := j.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, k := range batch {
			n += int64(k.events)
			last = p.XAdd(ctx, &redis.XAddArgs{
				Stream: j.key, MaxLen: j.length, Approx: true,
				Values: []any{journalField, bytes.TrimSuffix(k.lines, []byte("\n"))},
			})
		}
		added = p.ZIncrBy(ctx, j.marks, float64(n), journalAdded)
		if j.memory > 0 {
			p.Expire(ctx, j.key, j.memory)
			p.Expire(ctx, j.marks, j.memory)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if all := int64(added.Val()); passesMark(all-n, all) {
		j.trim(ctx, last.Val(), all)
	}
	return nil
}
