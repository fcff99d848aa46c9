package passes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/idem"
	"notifylab/internal/notify"
)

// A Register is the passes that there are, and whose: one hash in Redis, passes:valid.
type Register struct {
	client idem.Client
	key    string
	memory time.Duration // after its last issue it is forgotten; 0: never
}

// NewRegister returns the register of a namespace. It talks to nobody.
func NewRegister(c idem.Client, ns notify.Namespace, memory time.Duration) *Register {
	return &Register{client: c, key: ns.Key("passes:valid"), memory: memory}
}

// Issue makes a pass of each event whose pass is to expire.
func (r *Register) Issue(ctx context.Context, events ...Expired) error {
	if len(events) == 0 {
		return nil
	}
	var fields []any
	for _, e := range events {
		fields = append(fields, e.Pass, e.User)
	}
	_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, r.key, fields...)
		if r.memory > 0 {
			p.PExpire(ctx, r.key, r.memory)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("issue passes: %w", err)
	}
	return nil
}

// Fetch returns whose pass it is; ok is false if there is none.
func (r *Register) Fetch(ctx context.Context, pass string) (user string, ok bool, err error) {
	user, err = r.client.HGet(ctx, r.key, pass).Result()
	if errors.Is(err, redis.Nil) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("fetch pass %s: %w", pass, err)
	}
	return user, true, nil
}

// Delete deletes a pass, and says whether it was there. To delete it again changes
// nothing.
func (r *Register) Delete(ctx context.Context, pass string) (bool, error) {
	n, err := r.client.HDel(ctx, r.key, pass).Result()
	if err != nil {
		return false, fmt.Errorf("delete pass %s: %w", pass, err)
	}
	return n > 0, nil
}

// All returns the passes that there are, and whose.
func (r *Register) All(ctx context.Context) (map[string]string, error) {
	all, err := r.client.HGetAll(ctx, r.key).Result()
	if err != nil {
		return nil, fmt.Errorf("read the register: %w", err)
	}
	return all, nil
}
