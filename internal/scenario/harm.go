package scenario

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/servers"
)

// What is done to the servers themselves, which are the scenario's own. Until all
// is undone nothing can be cleaned up on them.

// States of a server, as notes have them.
const (
	stopped = "stopped"
	killed  = "killed"
	running = "running"
	alarmed = "alarmed"
)

// stopServer ends a server in its own orderly way.
func (s *stage) stopServer(ctx context.Context, server servers.Server) error {
	s.harmed = true
	if err := s.Pair.Stop(ctx, server); err != nil {
		return err
	}
	s.noteServer(server, stopped, "is stopped")
	return nil
}

// killServer ends a server with SIGKILL.
func (s *stage) killServer(ctx context.Context, server servers.Server) error {
	s.harmed = true
	if err := s.Pair.Kill(ctx, server); err != nil {
		return err
	}
	s.noteServer(server, killed, "is killed")
	return nil
}

// startServer starts it again, on what it has stored, and returns when the stage
// can use it.
func (s *stage) startServer(ctx context.Context, server servers.Server) error {
	if err := s.Pair.Start(ctx, server); err != nil {
		return err
	}
	if server == servers.RabbitMQ {
		_ = s.conn.Close() // it ended with the broker
		if err := s.connectBroker(ctx); err != nil {
			return err
		}
	}
	s.harmed = false
	s.noteServer(server, running, "runs again")
	return nil
}

// raiseAlarm has RabbitMQ find that it is low on memory. It holds publishers back
// until lift is called.
func (s *stage) raiseAlarm(ctx context.Context) (lift func(context.Context) error, err error) {
	s.harmed = true
	before, err := s.Pair.Rabbitmqctl(ctx, "eval", "vm_memory_monitor:get_vm_memory_high_watermark().")
	if err != nil {
		return nil, err
	}
	if err := s.watermark(ctx, "0.0000001"); err != nil {
		return nil, err
	}
	s.noteServer(servers.RabbitMQ, alarmed, "is low on memory: publishers have to wait")
	return func(ctx context.Context) error {
		if err := s.watermark(ctx, strings.TrimSpace(before)); err != nil {
			return err
		}
		s.harmed = false
		s.noteServer(servers.RabbitMQ, running, "has memory again")
		return nil
	}, nil
}

func (s *stage) watermark(ctx context.Context, fraction string) error {
	_, err := s.Pair.Rabbitmqctl(ctx, "set_vm_memory_high_watermark", fraction)
	return err
}

func (s *stage) noteServer(server servers.Server, state, reason string) {
	s.emit(event.Event{
		Time: time.Now(), Kind: event.Note, Source: source, PID: os.Getpid(),
		Owner: string(server), State: state, Reason: reason,
	})
}

// serverWas checks through which states a server was taken, for the sake of a
// notification.
func (r *Record) serverWas(server servers.Server, id string, want ...string) Finding {
	var got []string
	for _, e := range r.Events {
		if ofServer(e, server) {
			got = append(got, e.State)
		}
	}
	f := Finding{What: string(server), Want: strings.Join(want, ", "), Got: strings.Join(got, ", "), IDs: []string{id}}
	if len(got) == 0 {
		f.Got = "as it was"
	}
	f.OK = f.Got == f.Want
	return f
}

func ofServer(e event.Event, server servers.Server) bool {
	return e.Kind == event.Note && e.Source == source && e.Owner == string(server)
}

// lived checks what a worker went through while it had a notification in hand, and
// that it went through it in one life. A Redis that once more went away and came back,
// by itself since its disk stood still, is named and is nothing against it.
func (r *Record) lived(worker, id string, want ...event.Kind) Finding {
	f := Finding{What: worker + ", in one life", Want: words(want...), IDs: []string{id}}
	var got []event.Kind
	lives := 1
	for _, e := range r.Events {
		switch e.Kind {
		case event.Ready, event.Disconnect, event.Reconnected:
			if e.Source == worker {
				got = append(got, e.Kind)
			}
		case event.Restart:
			if e.Owner == worker {
				lives++
			}
		}
	}
	more := 0
	for ; count(got, event.Reconnected) > count(want, event.Reconnected); more++ {
		back := lastOf(got, event.Reconnected)
		away := lastOf(got[:back], event.Disconnect)
		if away < 0 {
			break
		}
		got = slices.Concat(got[:away], got[away+1:back], got[back+1:])
	}
	f.Got = words(got...)
	f.OK = f.Got == f.Want && lives == 1
	if lives > 1 {
		f.Got += fmt.Sprintf(", in %d lives", lives)
	}
	if more > 0 {
		f.Got += fmt.Sprintf(", Redis away %d more", more)
	}
	return f
}

func lastOf(kinds []event.Kind, kind event.Kind) int {
	for i, k := range slices.Backward(kinds) {
		if k == kind {
			return i
		}
	}
	return -1
}
