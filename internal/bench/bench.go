package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
)

// Config is what is measured, and how.
type Config struct {
	AMQPURL, RedisURL string
	Namespace         notify.Namespace // of this run alone; what is in it is deleted
	StateDir          string           // for the slots of workers
	// Program is this program, for what is measured as processes, and Env its
	// environment, by which it gets the servers' addresses.
	Program string
	Env     []string

	Only        []string // figures, or parts, which is what they begin with up to a slash; none: all
	Messages    int      // of a consume or publish run
	Rounds      int
	Prefetch    int
	Concurrency int
	Recoveries  int   // kills of each kind
	Backlogs    []int // messages
	Workers     []int // processes
	QueueType   broker.QueueType

	Emit     func(Figure) // each figure as soon as it is known
	Progress func(what string, step, steps int)
}

// A Figure is one result. What does not belong to its kind is 0 and left out.
type Figure struct {
	Kind    string  `json:"kind"` // figure
	Name    string  `json:"name"` // consume/lease
	PerS    float64 `json:"per_s,omitempty"`
	Ratio   float64 `json:"ratio,omitempty"` // to what Against names
	Against string  `json:"against,omitempty"`
	// LikeRatio is the ratio to the bare client that does as much, which Like names, if
	// that was measured, too.
	LikeRatio float64 `json:"like_ratio,omitempty"`
	Like      string  `json:"like,omitempty"`
	P50MS     float64 `json:"p50_ms,omitempty"`
	P95MS     float64 `json:"p95_ms,omitempty"`
	P99MS     float64 `json:"p99_ms,omitempty"`
	RedisUS   float64 `json:"redis_us,omitempty"`  // CPU time of Redis for a message, in microseconds
	MemoryMB  float64 `json:"memory_mb,omitempty"` // the largest that the process ever was
	Messages  int     `json:"messages,omitempty"`  // of each run, if not the machine line's
	Runs      int     `json:"runs"`
	With      string  `json:"with,omitempty"` // how it was measured, if not as the machine line says
}

// A part is some figures that are measured together.
type part struct {
	name  string
	run   func(*bench, context.Context) error
	steps func(*bench) int // how often it calls say
}

func parts() []part {
	return []part{
		{"publish", (*bench).publish, func(b *bench) int { return b.Rounds * (b.wanted([]string{produce}) + 2) }},
		{"consume", (*bench).consume, func(b *bench) int { return b.Rounds * (b.wanted(consumeNames()) + 2) }},
		{"latency", (*bench).latency, func(b *bench) int { return b.Rounds * 2 }},
		{"recovery", (*bench).recovery, func(b *bench) int { return b.Recoveries * b.wanted(recoveryNames()) }},
		{"memory", (*bench).memory, func(b *bench) int { return b.Rounds * b.wanted(memoryNames(b.Backlogs)) }},
		{"workers", (*bench).workers, func(b *bench) int { return b.Rounds * b.wanted(workersNames(b.Workers)) }},
	}
}

// Names are those of all figures, in their order.
func Names(cfg Config) []string {
	return slices.Concat([]string{publishBare, produce, consumeBare}, consumeNames(),
		[]string{"latency"}, recoveryNames(), memoryNames(cfg.Backlogs), workersNames(cfg.Workers))
}

func (b *bench) wanted(names []string) int {
	n := 0
	for _, name := range names {
		if b.wants(name) {
			n++
		}
	}
	return n
}

// bench is one run of it.
type bench struct {
	Config
	conn      *broker.Conn
	publisher *broker.Publisher
	redis     idem.Client
	slot      *idem.Slot
	fills     int // runs of messages so far
	step      int
	steps     int
}

// Run measures, and cleans up in any case. An error is why it could not go on;
// figures that were known by then have been emitted.
func Run(ctx context.Context, cfg Config) (err error) {
	b := &bench{Config: cfg}
	defer func() {
		if failed := b.close(); err == nil {
			err = failed
		}
	}()
	if err := b.open(ctx); err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer end(nil)
	watching.Go(func() { b.watch(ctx, end) })
	var wanted []part
	for _, p := range parts() {
		if b.wantsOf(p.name) {
			wanted = append(wanted, p)
			b.steps += p.steps(b)
		}
	}
	for _, p := range wanted {
		if err := p.run(b, ctx); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if gone := b.gone(ctx); gone != nil {
				return gone
			}
			return fmt.Errorf("measure %s: %w", p.name, err)
		}
	}
	return nil
}

// watch ends the run when a server is gone, which some parts would wait for. Redis is
// when it does not answer twice in a row.
func (b *bench) watch(ctx context.Context, end context.CancelCauseFunc) {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for silent := 0; ; {
		select {
		case <-again.C:
		case <-b.conn.Over():
			end(b.conn.Err())
			return
		case <-ctx.Done():
			return
		}
		switch err := idem.Ping(ctx, b.redis, b.RedisURL); {
		case err == nil:
			silent = 0
		case silent > 0:
			end(err)
			return
		default:
			silent++
		}
	}
}

// gone says which server does not answer any more, if one does not: then that is why
// something went wrong.
func (b *bench) gone(ctx context.Context) error {
	if err := b.conn.Err(); err != nil {
		return err
	}
	return idem.Ping(ctx, b.redis, b.RedisURL)
}

// wants says whether a figure is to be measured.
func (b *bench) wants(figure string) bool {
	return len(b.Only) == 0 || slices.ContainsFunc(b.Only, func(only string) bool {
		return only == figure || strings.HasPrefix(figure, only+"/")
	})
}

// wantsOf says whether any figure of a part is.
func (b *bench) wantsOf(part string) bool {
	return len(b.Only) == 0 || slices.ContainsFunc(b.Only, func(only string) bool {
		return only == part || strings.HasPrefix(only, part+"/")
	})
}

func (b *bench) open(ctx context.Context) (err error) {
	if b.redis, err = idem.Dial(b.RedisURL, b.Concurrency+8); err != nil {
		return err
	}
	if err := idem.Ping(ctx, b.redis, b.RedisURL); err != nil {
		return err
	}
	if b.conn, err = broker.Dial(ctx, b.broker("bench")); err != nil {
		return err
	}
	if b.slot, err = idem.TakeSlot(b.StateDir, b.Namespace, notify.Push); err != nil {
		return err
	}
	if b.publisher, err = b.conn.Publisher(context.WithoutCancel(ctx), bareWindow); err != nil {
		return err
	}
	notes := lab.NewNotes(b.redis, b.Namespace, queueExpires) // a run that is killed can be reset
	if err := notes.Declared(ctx, string(b.QueueType), b.topology().QueueNames()...); err != nil {
		return err
	}
	return b.conn.Declare(ctx, b.topology())
}

func (b *bench) broker(name string) broker.Config {
	return broker.Config{URL: b.AMQPURL, Name: "notifylab " + name, Heartbeat: 10 * time.Second, Timeout: 5 * time.Second}
}

func (b *bench) topology() broker.Topology {
	return broker.Topology{
		Names: broker.Names{Namespace: b.Namespace}, Channels: []notify.Channel{notify.Push},
		Delays: []time.Duration{500 * time.Millisecond, time.Second}, Type: b.QueueType,
		Expires: queueExpires,
	}
}

// queueExpires lets the broker delete what a killed run leaves behind.
const queueExpires = time.Hour

// closeLimit is how long the clean-up may take.
const closeLimit = 30 * time.Second

func (b *bench) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	var err error
	if b.conn != nil {
		err = b.conn.Delete(ctx, b.topology().QueueNames()...)
		_ = b.conn.Close()
	}
	if b.redis != nil {
		if _, forgot := idem.Forget(ctx, b.redis, b.Namespace); err == nil {
			err = forgot
		}
		_ = b.redis.Close()
	}
	if b.slot != nil {
		_ = b.slot.Free()
	}
	return err
}

func (b *bench) say(what string) {
	b.step++
	b.Progress(what, b.step, b.steps)
}

func (b *bench) emit(f Figure) {
	f.Kind = "figure"
	b.Emit(f)
}
