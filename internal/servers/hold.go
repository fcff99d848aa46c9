package servers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// How long a server may take to start, and to end when asked to, before its
// holder gives up on it. Many times of what a busy machine of two cores needs.
const (
	startLimit = 90 * time.Second
	stopLimit  = 20 * time.Second
)

// Hold is the holder: it has the servers that the requests on in ask for, and
// returns when in ends, on SIGTERM, or when ctx ends. By then the servers are
// gone and their directory is removed. It must be the only purpose of its
// process: it takes over the signals, so that SIGINT and SIGHUP do nothing, and
// answers that nobody reads any more don't end it. On SIGTERM it returns with one
// goroutine still reading in, which can't be interrupted.
func Hold(ctx context.Context, in io.Reader, out io.Writer) error {
	signal.Ignore(unix.SIGINT, unix.SIGHUP, unix.SIGPIPE)
	ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM)
	defer stop()
	if err := adopt(); err != nil {
		return err
	}
	reaping, enough := context.WithCancel(context.WithoutCancel(ctx))
	var reaper sync.WaitGroup
	reaper.Go(func() { reapOrphans(reaping) })
	err := hold(ctx, in, out, freePorts)
	enough()
	reaper.Wait()
	waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	return errors.Join(err, reap(waiting))
}

// held is the holder's state. One goroutine, the one in hold, touches it, and while
// that opens a pair those that start its servers, in turn.
type held struct {
	choose func(n int) ([]int, error)
	mu     sync.Mutex
	info   Info

	epmd    *child
	servers map[Server]*child
}

func hold(ctx context.Context, in io.Reader, out io.Writer, choose func(n int) ([]int, error)) (err error) {
	life, die := context.WithCancelCause(ctx)
	defer die(nil)
	requests := make(chan request)
	go listen(life, die, in, requests)

	h := &held{choose: choose, servers: map[Server]*child{}}
	defer func() { err = errors.Join(err, h.close()) }()
	answers := json.NewEncoder(out)
	for {
		var r request
		select {
		case <-life.Done():
			return nil
		case r = <-requests:
		}
		err := h.do(life, r)
		if life.Err() != nil {
			return nil // whatever failed did so because this is the end
		}
		a := answer{Number: r.Number, Info: h.info, Taken: errors.Is(err, ErrPortTaken)}
		if err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil && !errors.Is(err, unix.EPIPE) {
			return fmt.Errorf("answer: %w", err)
		}
	}
}

// listen hands on the requests, and ends the holder's life when their reader ends:
// also in the midst of a request that takes long. After a detach it doesn't.
func listen(life context.Context, die context.CancelCauseFunc, in io.Reader, requests chan<- request) {
	detached := false
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			break // not an owner of ours
		}
		detached = detached || r.Do == doDetach
		select {
		case requests <- r:
		case <-life.Done():
			return
		}
	}
	if !detached {
		die(errors.New("the owner is gone"))
	}
}

func (h *held) do(ctx context.Context, r request) error {
	if r.Do == doOpen && r.Open != nil {
		return h.open(ctx, *r.Open)
	}
	if h.info.Dir == "" {
		return fmt.Errorf("%s: no pair is open", r.Do)
	}
	if r.Do == doDetach {
		return nil
	}
	if h.info.at(r.Server) < 0 {
		return fmt.Errorf("%s: unknown server %q", r.Do, r.Server)
	}
	server := h.servers[r.Server]
	switch r.Do {
	case doStop:
		asking, cancel := context.WithTimeout(ctx, stopLimit)
		defer cancel()
		return server.terminate(asking)
	case doKill:
		return server.kill(ctx)
	case doStart:
		return h.restart(ctx, r.Server)
	case doSuspend:
		return server.suspend(ctx)
	case doResume:
		return server.resume()
	}
	return fmt.Errorf("unknown request %q", r.Do)
}
