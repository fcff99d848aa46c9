package scenario

import (
	"context"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/servers"
)

// harm kills a random worker at each beat, and restarts a server instead when it
// is time for one, until the traffic's duration is over. What it has begun it ends.
// Around a restart is a beat's pause: what is sent again has one cause.
func (s *soaking) harm(ctx context.Context) error {
	over := time.NewTimer(s.plan.Duration)
	defer over.Stop()
	beat := time.NewTimer(s.beat())
	defer beat.Stop()
	chance := rand.New(rand.NewPCG(uint64(s.Seed), 0))
	turn, last := []servers.Server{servers.Redis, servers.RabbitMQ}, time.Now()
	for {
		select {
		case <-beat.C:
		case <-over.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		var err error
		if s.plan.RestartEvery > 0 && time.Since(last) >= s.plan.RestartEvery {
			err = s.restart(ctx, turn[0])
			turn[0], turn[1], last = turn[1], turn[0], time.Now()
		} else if s.plan.KillEvery > 0 {
			s.kill(s.crew[chance.IntN(len(s.crew))])
		}
		if err != nil {
			return err
		}
		beat.Reset(s.beat())
	}
}

// beat is how often something is done.
func (s *soaking) beat() time.Duration {
	switch {
	case s.plan.KillEvery > 0:
		return s.plan.KillEvery
	case s.plan.RestartEvery > 0:
		return s.plan.RestartEvery
	}
	return s.plan.Duration
}

// kill kills a worker. One that is dead already, and not yet started again, is left
// alone.
func (s *soaking) kill(w crewMember) {
	now := time.Now()
	name := w.Name()
	if w.Signal(syscall.SIGKILL) != nil {
		return
	}
	s.tally.interrupted(interruption{what: killOf, channel: w.channel, from: now, to: time.Now()})
	s.emit(event.Event{Time: now, Kind: event.Note, Source: source, PID: os.Getpid(), Owner: name, State: killed, Reason: "is killed", Detail: true})
}

func (s *soaking) restart(ctx context.Context, server servers.Server) error {
	from := time.Now()
	if err := s.stopServer(ctx, server); err != nil {
		return err
	}
	if err := s.startServer(ctx, server); err != nil {
		return err
	}
	s.tally.interrupted(interruption{what: server, from: from, to: time.Now()})
	return nil
}
