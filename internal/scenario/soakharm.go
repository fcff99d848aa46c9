package scenario

import (
	"cmp"
	"context"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/servers"
)

// harm kills a random worker at each beat, and restarts a server instead when it
// is time for one, until the traffic's duration is over, and a worker and each server
// have had their turn if there was to be one.
// Before and after a restart there is a pause, so that few messages are hit by both it
// and a kill. RabbitMQ is stopped in its own way or killed, by chance. Redis is stopped:
// killed, it may forget what it had acknowledged in the last two seconds (its writes to
// the file wait while a slow fsync is under way; measured with appendfsync everysec),
// and what follows from that is redis-amnesia's.
func (s *soaking) harm(ctx context.Context) error {
	const pause = sendTakes + time.Second
	over := time.NewTimer(s.plan.Duration)
	defer over.Stop()
	beat := time.NewTimer(s.beat())
	defer beat.Stop()
	chance := rand.New(rand.NewPCG(uint64(s.Seed), 0))
	turn := []servers.Server{servers.Redis, servers.RabbitMQ}
	killDue := s.plan.kills()
	turns := 0 // of servers, that are to be had yet
	if s.plan.restarts() {
		turns = len(turn)
	}
	restarted, last := time.Now(), time.Now() // last: anything
	for ended := false; !ended || turns > 0 || killDue; {
		select {
		case <-beat.C:
		case <-over.C:
			ended = true
			continue
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		wait := s.beat()
		switch rest := pause - time.Since(last); {
		case s.plan.RestartEvery == 0 || time.Since(restarted) < s.plan.RestartEvery || ended && turns == 0:
			if s.kill(s.crew[chance.IntN(len(s.crew))]) {
				killDue = false
			}
			last = time.Now()
		case rest > 0:
			wait = rest
		default:
			end := s.stopServer
			if turn[0] == servers.RabbitMQ && chance.IntN(2) == 0 {
				end = s.killServer
			}
			if err := s.restart(ctx, turn[0], end); err != nil {
				return err
			}
			turn[0], turn[1] = turn[1], turn[0]
			turns--
			restarted, last, wait = time.Now(), time.Now(), max(wait, pause)
		}
		beat.Reset(wait)
	}
	return nil
}

// restarts says whether servers are to be restarted at all.
func (k Soak) restarts() bool { return k.RestartEvery > 0 && k.RestartEvery < k.Duration }

// kills says whether workers are to be killed at all.
func (k Soak) kills() bool { return k.KillEvery > 0 && k.KillEvery < k.Duration }

// beat is how often something is done; if nothing is, the whole time.
func (s *soaking) beat() time.Duration {
	return cmp.Or(s.plan.KillEvery, s.plan.RestartEvery, s.plan.Duration)
}

// kill kills a worker, and returns true if it did. One that is dead already, and not
// yet started again, is left alone.
func (s *soaking) kill(w crewMember) bool {
	if s.plan.KillEvery == 0 {
		return false
	}
	now := time.Now()
	name := w.Name()
	pid, err := w.SignalLife(syscall.SIGKILL)
	if err != nil || !s.tally.interrupted(interruption{workerKilled, pid, now}) {
		return false
	}
	s.emit(event.Event{Time: now, Kind: event.Note, Source: source, PID: os.Getpid(), Owner: name, State: killed, Reason: "is killed", Detail: true})
	return true
}

func (s *soaking) restart(ctx context.Context, server servers.Server, end func(context.Context, servers.Server) error) error {
	from := time.Now()
	if err := end(ctx, server); err != nil {
		return err
	}
	if err := s.startServer(ctx, server); err != nil {
		return err
	}
	what := redisRestart
	if server == servers.RabbitMQ {
		what = rabbitRestart
	}
	s.tally.interrupted(interruption{what: what, from: from})
	return nil
}
