package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/xid"

	"notifylab/internal/notify"
)

// markMemory is how long a fired crash point is remembered.
const markMemory = time.Hour

// Marks remembers which crash points have fired. That can't be told from a
// delivery: a redelivered one may never have reached the point.
type Marks struct {
	client    Client
	namespace notify.Namespace
}

// NewMarks returns the marks of a namespace.
func NewMarks(c Client, ns notify.Namespace) *Marks { return &Marks{client: c, namespace: ns} }

// First says whether the point fires now for the first time for this message and
// whoever handles it, and marks that it did: before anything else happens there.
func (m *Marks) First(ctx context.Context, id, who string, p Point) (bool, error) {
	key := m.namespace.Key("crash:" + id + ":" + who + ":" + string(p))
	mine := xid.New().String()
	found, err := m.client.SetArgs(ctx, key, mine, redis.SetArgs{Mode: "NX", Get: true, TTL: markMemory}).Result()
	if errors.Is(err, redis.Nil) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("mark %s: %w", key, err)
	}
	return found == mine, nil // the client asks again when a reply is lost
}
