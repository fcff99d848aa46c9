package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/notify"
)

// Notes is what those who run write down for those who look: which queues were
// made, which workers live with how much in hand, and who is at the dead letters.
// RabbitMQ has no list of queues for AMQP clients, and no count of unacked messages.
type Notes struct {
	client    Client
	namespace notify.Namespace
	memory    time.Duration // of what is noted for good; 0: for ever
}

// presence is how long a worker is believed to live after its last word.
const presence = 3 * time.Second

// NewNotes returns the notes of a namespace. Memory is how long a note of a queue
// outlives the last one; 0: for ever.
func NewNotes(c Client, ns notify.Namespace, memory time.Duration) *Notes {
	return &Notes{client: c, namespace: ns, memory: memory}
}

// QueueNote is a queue that somebody has declared.
type QueueNote struct {
	Name string `json:"name"`
	Type string `json:"type"` // quorum or classic
}

func (n *Notes) queues() string             { return n.namespace.Key("lab:queues") }
func (n *Notes) workers() string            { return n.namespace.Key("lab:workers") }
func (n *Notes) worker(place string) string { return n.namespace.Key("lab:worker:" + place) }

// Declared notes queues of one type.
func (n *Notes) Declared(ctx context.Context, queueType string, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	var fields []any
	for _, name := range names {
		fields = append(fields, name, queueType)
	}
	_, err := n.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, n.queues(), fields...)
		n.remember(ctx, p, n.queues())
		return nil
	})
	if err != nil {
		return fmt.Errorf("note queues: %w", err)
	}
	return nil
}

func (n *Notes) remember(ctx context.Context, p redis.Pipeliner, key string) {
	if n.memory > 0 {
		p.Expire(ctx, key, n.memory)
	}
}

// Queues returns every queue that was noted, by name. It need not be there any
// more.
func (n *Notes) Queues(ctx context.Context) ([]QueueNote, error) {
	fields, err := n.client.HGetAll(ctx, n.queues()).Result()
	if err != nil {
		return nil, fmt.Errorf("read notes of queues: %w", err)
	}
	var all []QueueNote
	for name, t := range fields {
		all = append(all, QueueNote{name, t})
	}
	slices.SortFunc(all, func(a, b QueueNote) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// A WorkerNote is what a worker last said of itself.
type WorkerNote struct {
	Name   string `json:"name"` // push-worker-1
	Owner  string `json:"owner"`
	PID    int    `json:"pid"`
	Queue  string `json:"queue"`
	InHand int    `json:"in_hand"` // deliveries that are not settled
}

// placeOf is an owner without its life: a slot of one machine, of which there is one
// note. So a worker that takes the slot of one that was killed takes its note's
// place as well, and nothing is counted twice.
func placeOf(owner string) string {
	if i := strings.LastIndexByte(owner, '/'); i >= 0 {
		return owner[:i]
	}
	return owner
}

// Alive notes that a worker lives: for three seconds.
func (n *Notes) Alive(ctx context.Context, w WorkerNote) error {
	b, err := json.Marshal(w)
	if err != nil {
		return err
	}
	_, err = n.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, n.worker(placeOf(w.Owner)), b, presence)
		p.SAdd(ctx, n.workers(), placeOf(w.Owner))
		n.remember(ctx, p, n.workers())
		return nil
	})
	if err != nil {
		return fmt.Errorf("note that %s lives: %w", w.Name, err)
	}
	return nil
}

// Gone takes a worker's note back. It is called by the worker itself, while it
// still has its slot: the note is its own.
func (n *Notes) Gone(ctx context.Context, owner string) error {
	_, err := n.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Del(ctx, n.worker(placeOf(owner)))
		p.SRem(ctx, n.workers(), placeOf(owner))
		return nil
	})
	if err != nil {
		return fmt.Errorf("note that a worker is gone: %w", err)
	}
	return nil
}

// Workers returns the workers that live, by name. Those that don't are forgotten.
func (n *Notes) Workers(ctx context.Context) ([]WorkerNote, error) {
	places, err := n.client.SMembers(ctx, n.workers()).Result()
	if err != nil {
		return nil, fmt.Errorf("read notes of workers: %w", err)
	}
	var all []WorkerNote
	for _, place := range places {
		b, err := n.client.Get(ctx, n.worker(place)).Bytes()
		if errors.Is(err, redis.Nil) {
			n.client.SRem(ctx, n.workers(), place) // if it lives it says so again within the second
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read notes of workers: %w", err)
		}
		var w WorkerNote
		if json.Unmarshal(b, &w) == nil {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b WorkerNote) int { return strings.Compare(a.Name+a.Owner, b.Name+b.Owner) })
	return all, nil
}

// turnMemory is how long the note of a turn lasts: turns are short, and whoever
// has one may be killed.
const turnMemory = time.Minute

func (n *Notes) turn(channel string) string { return n.namespace.Key("lab:turn:" + channel) }

// Turn notes who is at a channel's dead letters.
func (n *Notes) Turn(ctx context.Context, channel, who string) error {
	return n.client.Set(ctx, n.turn(channel), who, turnMemory).Err()
}

// TurnOver takes the note back.
func (n *Notes) TurnOver(ctx context.Context, channel string) error {
	return n.client.Del(ctx, n.turn(channel)).Err()
}

// WhoseTurn returns who is at a channel's dead letters, or "" if nobody said.
func (n *Notes) WhoseTurn(ctx context.Context, channel string) string {
	return n.client.Get(ctx, n.turn(channel)).Val()
}
