package idem

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// answer is how long an answer may take: the command's time-out and its retry's.
const answer = 2 * Timeout

// together sends cmd with what other handlers have to ask at the same time: all
// that comes while one batch is on its way is the next one, in this order.
//
// The client gives up no command that it has taken, and what it has behind a batch
// that is not answered waits for that. So it is the waiting that ends, with ctx or
// after [answer] or a little more: then the command may be carried out all the same, and cmd must
// not be looked at.
func (s *Store) together(ctx context.Context, cmd redis.Cmder) error {
	if ctx.Err() != nil { // what is not begun leaves nothing
		return context.Cause(ctx)
	}
	pipe, err := s.client.AsyncAutoPipeline()
	if err != nil {
		return err
	}
	if ctx.Done() == nil {
		ctx = s.limit.now()
	} else if until, ok := ctx.Deadline(); !ok || time.Until(until) > answer {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, answer)
		defer cancel()
	}
	err = pipe.Submit(ctx, cmd).WaitContext(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		err = fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)
	}
	return err
}

// A limit is the end of the waiting for all who ask about now: a timer for each
// would cost more than what it watches.
type limit struct {
	mu    sync.Mutex
	ctx   context.Context
	until time.Time
}

// grain is how much longer than [answer] somebody may wait.
const grain = answer / 20

// now returns a context that ends after [answer] and at most [grain].
func (l *limit) now() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.until.Sub(now) < answer {
		ctx, end := context.WithCancelCause(context.Background())
		time.AfterFunc(answer+grain, func() { end(context.DeadlineExceeded) })
		l.ctx, l.until = ctx, now.Add(answer+grain)
	}
	return l.ctx
}

// A script is run by its hash, and sent whole to a server that does not know it.
type script struct{ text, hash string }

func newScript(text string) script { return script{text, redis.NewScript(text).Hash()} }

// run calls a script with one key, and returns its text; redis.Nil if that is none.
func (s *Store) run(ctx context.Context, sc script, key string, args ...any) (string, error) {
	call := func(how, what string) (*redis.Cmd, error) {
		cmd := redis.NewCmd(ctx, append([]any{how, what, 1, key}, args...)...)
		return cmd, s.together(ctx, cmd)
	}
	cmd, err := call("evalsha", sc.hash)
	if err != nil && !errors.Is(err, redis.Nil) && redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd, err = call("eval", sc.text)
	}
	if err != nil {
		return "", err
	}
	return cmd.Text()
}
