package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/idem"
)

// A chore is what the bare client's handlers do with a message, which they know by its
// tag only.
type chore func(ctx context.Context, tag uint64) error

// chores are those of the bare clients with handlers, by name: what a worker asks of
// Redis, by the same commands, which go together in the same way, and nothing else.
func (b *bench) chores() map[string]func(context.Context) (chore, error) {
	return map[string]func(context.Context) (chore, error){
		handlers:       func(context.Context) (chore, error) { return nil, nil },
		handlersRecord: func(context.Context) (chore, error) { return b.claiming(retention) },
		handlersLease:  b.completing,
	}
}

// claiming writes a record that is kept for so long.
func (b *bench) claiming(keep time.Duration) (chore, error) {
	pipe, err := b.redis.AsyncAutoPipeline()
	return func(ctx context.Context, tag uint64) error {
		key, value := b.bareRecord("claimed", tag)
		claim := redis.NewStringCmd(ctx, "set", key, value, "px", keep.Milliseconds(), "get", "nx")
		if err := pipe.Submit(ctx, claim).WaitContext(ctx); err != redis.Nil && claim.Val() != value { // its own: of a lost answer
			return fmt.Errorf("claim %s: %q, %v", key, claim.Val(), err)
		}
		return nil
	}, err
}

// completing claims for a lease, and then compares and sets.
func (b *bench) completing(ctx context.Context) (chore, error) {
	script := redis.NewScript(`if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 'lost' end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return false`)
	if err := script.Load(ctx, b.redis).Err(); err != nil {
		return nil, err
	}
	pipe, err := b.redis.AsyncAutoPipeline()
	if err != nil {
		return nil, err
	}
	claim, err := b.claiming(lease)
	return func(ctx context.Context, tag uint64) error {
		if err := claim(ctx, tag); err != nil {
			return err
		}
		key, value := b.bareRecord("claimed", tag)
		_, done := b.bareRecord("done", tag)
		complete := redis.NewCmd(ctx, "evalsha", script.Hash(), 1, key, value, done, retention.Milliseconds())
		if err := pipe.Submit(ctx, complete).WaitContext(ctx); err != redis.Nil {
			return fmt.Errorf("complete %s: %v, %v", key, complete.Val(), err)
		}
		return nil
	}, err
}

// bareRecord is a record as long as a worker's.
func (b *bench) bareRecord(state string, tag uint64) (key, value string) {
	id := strconv.FormatUint(tag, 10)
	return b.Namespace.Key("notification:bare-" + id + ":push:1"), state + strings.Repeat(" ", 100) + id
}

// consumeHandlers has as many handlers as a worker: what anybody pays who does
// something with several messages at a time. One ack covers all up to the lowest that
// is not handled.
func (b *bench) consumeHandlers(ctx context.Context, prepare func(context.Context) (chore, error)) (pace, error) {
	do, err := prepare(ctx)
	if err != nil {
		return pace{}, err
	}
	var handlers sync.WaitGroup
	done, err := b.consumeBy(ctx, func(tags <-chan uint64, ack func(uint64) error) error {
		handled, wrong := make(chan uint64, b.Prefetch), make(chan error, b.Concurrency)
		for range b.Concurrency {
			handlers.Go(func() {
				for tag := range tags {
					if do != nil {
						if err := do(ctx, tag); err != nil {
							wrong <- err
							return
						}
					}
					handled <- tag
				}
			})
		}
		go func() {
			handlers.Wait()
			close(handled)
		}()
		return b.ackRuns(handled, wrong, ack)
	})
	handlers.Wait() // their channel is closed
	if _, forgot := idem.Forget(context.WithoutCancel(ctx), b.redis, b.Namespace); err == nil {
		err = forgot
	}
	return done, err
}

// ackRuns acks up to the lowest that is not handled, whenever it is free.
func (b *bench) ackRuns(handled <-chan uint64, wrong <-chan error, ack func(uint64) error) error {
	last := uint64(b.Messages)
	open := map[uint64]bool{} // handled above a hole
	for acked := uint64(0); acked < last; {
		var tag uint64
		var ok bool
		select {
		case tag, ok = <-handled:
		case err := <-wrong:
			return err
		}
		for more := true; ok && more; {
			open[tag] = true
			select {
			case tag, ok = <-handled:
			default:
				more = false
			}
		}
		if !ok {
			select {
			case err := <-wrong: // of the last one
				return err
			default:
				return fmt.Errorf("the channel closed after %d acks", acked)
			}
		}
		upTo := acked
		for open[upTo+1] {
			upTo++
			delete(open, upTo)
		}
		if upTo == acked {
			continue
		}
		if err := ack(upTo); err != nil {
			return err
		}
		acked = upTo
	}
	return nil
}
