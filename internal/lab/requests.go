package lab

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/xid"

	"notifylab/internal/notify"
)

const (
	requestMemory = 24 * time.Hour   // of an Idempotency-Key, and of what was queued
	requestTime   = 15 * time.Second // that a request may take before another may try
)

// Requests remembers what was asked for over HTTP: which Idempotency-Keys were used
// for what, and which notifications were queued.
type Requests struct {
	client    Client
	namespace notify.Namespace
	free      *redis.Script
}

//go:embed free.lua
var freeLua string

// NewRequests returns the requests of a namespace.
func NewRequests(c Client, ns notify.Namespace) *Requests {
	return &Requests{client: c, namespace: ns, free: redis.NewScript(freeLua)}
}

// RequestState is what a key was found to be.
type RequestState int

const (
	RequestMine  RequestState = iota // to be done now, by this request
	RequestBusy                      // another request is at it
	RequestDone                      // it was done
	RequestOther                     // it was used with another body
)

// A Request is one use of a key.
type Request struct {
	State RequestState
	ID    string // of the notification
	value string
	body  string
}

func (r *Requests) key(key string) string   { return r.namespace.Key("lab:request:" + key) }
func (r *Requests) busy(key string) string  { return r.namespace.Key("lab:request-busy:" + key) }
func (r *Requests) queued(id string) string { return r.namespace.Key("lab:queued:" + id) }

// Begin says what to do about a request with this key and a hash of its body. The
// id is given to the first; whoever comes again gets the first one's. One that is
// [RequestMine] must be ended by [Requests.End]; if it never is, another may try
// after a while.
func (r *Requests) Begin(ctx context.Context, key, body, id string) (Request, error) {
	value := "open " + body + " " + id
	found, err := r.client.SetArgs(ctx, r.key(key), value, redis.SetArgs{Mode: "NX", Get: true, TTL: requestMemory}).Result()
	if errors.Is(err, redis.Nil) {
		found, err = value, nil
	}
	if err != nil {
		return Request{}, fmt.Errorf("remember the request: %w", err)
	}
	q := known(found, body)
	if q.State != RequestMine {
		return q, nil
	}
	q.value = xid.New().String()
	holder, err := r.client.SetArgs(ctx, r.busy(key), q.value, redis.SetArgs{Mode: "NX", Get: true, TTL: requestTime}).Result()
	switch {
	case errors.Is(err, redis.Nil), err == nil && holder == q.value:
		return r.still(ctx, key, q)
	case err != nil:
		return Request{}, fmt.Errorf("remember the request: %w", err)
	}
	q.State = RequestBusy
	return q, nil
}

// known reads what a key holds: the request is done, or is to be done.
func known(found, body string) Request {
	f := strings.SplitN(found, " ", 3)
	switch {
	case len(f) != 3 || f[1] != body:
		return Request{State: RequestOther}
	case f[0] == "done":
		return Request{State: RequestDone, ID: f[2], body: body}
	}
	return Request{State: RequestMine, ID: f[2], body: body}
}

// still looks again, now that nobody else is at it: between the first look and this
// one somebody may have ended it, and to do it again would be a second event.
func (r *Requests) still(ctx context.Context, key string, q Request) (Request, error) {
	found, err := r.client.Get(ctx, r.key(key)).Result()
	if err == nil {
		if now := known(found, q.body); now.State != RequestMine {
			_ = r.leave(ctx, key, q) // else it ends by itself
			return now, nil
		}
	} else if !errors.Is(err, redis.Nil) { // nothing is there after a reset: it is as new
		return Request{}, fmt.Errorf("remember the request: %w", err)
	}
	return q, nil
}

// leave lets others at a request, if it still is q's.
func (r *Requests) leave(ctx context.Context, key string, q Request) error {
	if err := r.free.Run(ctx, r.client, []string{r.busy(key)}, q.value).Err(); err != nil {
		return fmt.Errorf("let others at the request: %w", err)
	}
	return nil
}

// End says that a request of one's own is over, and whether it was done: done is
// remembered whoever is at it by now, since it was. After an error others are kept
// away for a while, and may do it again then.
func (r *Requests) End(ctx context.Context, key string, q Request, done bool) error {
	if done {
		if err := r.client.Set(ctx, r.key(key), "done "+q.body+" "+q.ID, requestMemory).Err(); err != nil {
			return fmt.Errorf("remember that the request is done: %w", err)
		}
	}
	return r.leave(ctx, key, q)
}

// Queued notes that a notification was confirmed on channels.
func (r *Requests) Queued(ctx context.Context, n notify.Notification, channels []notify.Channel) error {
	if len(channels) == 0 {
		return nil
	}
	var members []any
	for _, c := range channels {
		members = append(members, string(c))
	}
	_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.SAdd(ctx, r.queued(n.ID), members...)
		p.Expire(ctx, r.queued(n.ID), requestMemory)
		return nil
	})
	if err != nil {
		return fmt.Errorf("note what was queued: %w", err)
	}
	return nil
}

// WhereQueued returns the channels on which a notification was confirmed.
func (r *Requests) WhereQueued(ctx context.Context, id string) ([]string, error) {
	channels, err := r.client.SMembers(ctx, r.queued(id)).Result()
	if err != nil {
		return nil, fmt.Errorf("read what was queued: %w", err)
	}
	slices.Sort(channels)
	return channels, nil
}
