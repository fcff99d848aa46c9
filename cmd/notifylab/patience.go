package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
)

// patiently calls dial until it succeeds, for at most wait when nobody answers.
// What can't get better by waiting ends it at once: a refused virtual host, a
// queue with other arguments, a refused password. (A broker that dies while it
// looks at a password can't be told from one that refuses it, so that must happen
// twice, a second apart.) The first failure is said on w, once.
func patiently(ctx context.Context, w io.Writer, wait time.Duration, dial func(context.Context) error) error {
	deadline := time.Now().Add(wait)
	said, refused := false, false
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := dial(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if isRefusal(err) && !refused {
			refused, pause = true, time.Second
		} else if !isAbsence(err) || !time.Now().Before(deadline) {
			return err
		} else {
			refused = false
		}
		if !said && wait > 0 && !refused {
			said = true
			fmt.Fprintf(w, "notifylab: %s; waiting for up to %s\n", escape(err.Error()), event.Short(wait))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// answerWithin is ctx, and ends after limit with what is to be said then.
func answerWithin(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
}

func isRefusal(err error) bool {
	var redis *idem.UnreachableError
	return errors.Is(err, broker.ErrAccessRefused) || errors.As(err, &redis) && redis.Refused()
}

// isAbsence says that nobody answered, which time may heal.
func isAbsence(err error) bool {
	var mq *broker.UnreachableError
	var redis *idem.UnreachableError
	return errors.As(err, &mq) || errors.As(err, &redis) && !redis.Refused()
}
