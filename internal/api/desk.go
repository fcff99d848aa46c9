package api

import (
	"context"
	"slices"

	"notifylab/internal/broker"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
)

// A Desk looks at one namespace of the lab and changes it. It holds no connection
// of its own.
type Desk struct {
	Redis     idem.Client
	Broker    *broker.Conn
	Namespace notify.Namespace
	// Dial makes another connection, on which replays are published.
	Dial func(context.Context) (*broker.Conn, error)
	// Who is what those are told who wait for a turn at dead letters: notifylab
	// dlq replay.
	Who string
}

func (d Desk) notes() *lab.Notes   { return lab.NewNotes(d.Redis, d.Namespace, 0) }
func (d Desk) names() broker.Names { return broker.Names{Namespace: d.Namespace} }

// A Queue is a queue that is there.
type Queue struct {
	Kind      string `json:"kind"` // queue
	Queue     string `json:"queue"`
	Ready     int    `json:"ready"`   // waiting to be handed over
	InHand    int    `json:"in_hand"` // handed over to live workers and not settled
	Consumers int    `json:"consumers"`
	Type      string `json:"type"` // quorum or classic

	DeadLettersOf notify.Channel `json:"-"`
}

// Queues returns the queues of the namespace that are there, by name.
func (d Desk) Queues(ctx context.Context) ([]Queue, error) {
	noted, err := d.notes().Queues(ctx)
	if err != nil {
		return nil, err
	}
	workers, err := d.notes().Workers(ctx)
	if err != nil {
		return nil, err
	}
	inHand := map[string]int{}
	for _, w := range workers {
		inHand[w.Queue] += w.InHand
	}
	letters := map[string]notify.Channel{}
	for _, c := range notify.Channels() {
		letters[d.names().DeadLetters(c)] = c
	}
	all := []Queue{}
	for _, q := range noted {
		ready, consumers, ok, err := d.Broker.Ready(ctx, q.Name)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, Queue{"queue", q.Name, ready, inHand[q.Name], consumers, q.Type, letters[q.Name]})
		}
	}
	return all, nil
}

// A Record is an idempotency record.
type Record struct {
	Kind    string `json:"kind"` // record
	Key     string `json:"key"`
	ID      string `json:"id"`
	Channel string `json:"channel"`
	User    string `json:"user"`
	State   string `json:"state"` // claimed, pending, done
	Owner   string `json:"owner"`
	Slot    int    `json:"slot"` // the owner's
	TTLMS   int64  `json:"ttl_ms"`
}

// Records returns the records of the namespace, by key: all, or those of one
// notification, and in one state.
func (d Desk) Records(ctx context.Context, id, state string) ([]Record, error) {
	found, err := idem.List(ctx, d.Redis, d.Namespace, id)
	if err != nil {
		return nil, err
	}
	all := []Record{}
	for _, r := range found {
		if (id == "" || r.ID == id) && (state == "" || string(r.Record.State) == state) {
			all = append(all, Record{"record", r.Key, r.ID, r.Channel, r.User, string(r.Record.State),
				r.Record.Owner.String(), r.Record.Owner.Slot, r.TTL.Milliseconds()})
		}
	}
	return all, nil
}

// A Reset is what a reset deleted.
type Reset struct {
	Kind   string `json:"kind"` // reset
	Queues int    `json:"queues"`
	Keys   int    `json:"keys"`
}

// Reset deletes the queues that were noted, the lessons' own in any case, and every
// key of the namespace. Other namespaces and other programs' keys stay. After an
// error it says what is gone; another reset goes on from there.
func (d Desk) Reset(ctx context.Context) (Reset, error) {
	r := Reset{Kind: "reset"}
	noted, err := d.notes().Queues(ctx)
	if err != nil {
		return r, err
	}
	all := (broker.Topology{Names: d.names(), Channels: notify.Channels()}).QueueNames()
	for _, q := range noted {
		all = append(all, q.Name)
	}
	// Work queues last: with its queue a live worker's session ends, and the next
	// makes all of them again.
	var work, others []string
	for _, name := range all {
		if slices.ContainsFunc(notify.Channels(), func(c notify.Channel) bool { return name == d.names().Work(c) }) {
			work = append(work, name)
		} else {
			others = append(others, name)
		}
	}
	for _, name := range slices.Concat(others, work) {
		_, _, there, err := d.Broker.Ready(ctx, name)
		if err != nil {
			return r, err
		}
		if !there {
			continue
		}
		if err := d.Broker.Delete(ctx, name); err != nil {
			return r, err
		}
		r.Queues++
	}
	r.Keys, err = idem.Forget(ctx, d.Redis, d.Namespace)
	return r, err
}
