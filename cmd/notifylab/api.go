package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"notifylab/internal/api"
	"notifylab/internal/broker"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
)

type apiFlags struct {
	listen         string
	connectTimeout time.Duration
	publishTimeout time.Duration
	grace          time.Duration
	queueType      string
}

func (a *app) apiCommand() *cobra.Command {
	var f apiFlags
	cmd := &cobra.Command{
		Use:     "api",
		GroupID: groupRun,
		Short:   "The producer over HTTP, and the lab's switches",
		Long: `POST /api/notify publishes an event and answers 202 once every channel's message is
confirmed. The lab's settings, queues, records, events and dead letters are there as
well, as the commands show them:

  POST /api/notify                    {"mode":"default"}, or id, user, text, channels
  GET  /api/notifications/ID          what is known of one
  GET, PUT /api/lab/flags             {"idempotency":true,"claimLease":false}
  GET  /api/lab/queues, keys, events  ?since= &limit=
  GET, DELETE /api/lab/dlq/CHANNEL    ?id= &user= &reason=
  POST /api/lab/dlq/CHANNEL/replay    and &dry-run=on &force=on
  POST /api/lab/reset
  GET  /healthz, /readyz, /metrics`,
		Example: "  notifylab api\n  notifylab api --listen 127.0.0.1:3100",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return a.serveAPI(cmd.Context(), f)
		},
	}
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:3100", "address to listen on; one that is no loopback lets everyone in")
	cmd.Flags().DurationVar(&f.connectTimeout, "connect-timeout", 30*time.Second, "how long to wait for servers that do not answer at the start")
	cmd.Flags().DurationVar(&f.publishTimeout, "publish-timeout", 5*time.Second, "how long all confirms of an event may take, at most 5s")
	cmd.Flags().DurationVar(&f.grace, "grace", 10*time.Second, "how long what is in hand may take after SIGTERM")
	cmd.Flags().Var(newChoice(&f.queueType, "quorum", "quorum", "classic"), "queue-type", "quorum or classic, as the workers have it")
	return cmd
}

func (f apiFlags) check() error {
	if err := checkListen("listen", f.listen, "127.0.0.1:3100"); err != nil {
		return err
	}
	if f.publishTimeout > 5*time.Second {
		return usagef("--publish-timeout %v: at most 5s, since a request is answered by then", f.publishTimeout)
	}
	return moreThanZero("publish-timeout", f.publishTimeout, "connect-timeout", f.connectTimeout, "grace", f.grace)
}

func (a *app) serveAPI(ctx context.Context, f apiFlags) error {
	ctx, _, done := a.signals(ctx)
	defer done()
	// First the port: whoever has it wants to be told at once.
	ln, err := net.Listen("tcp", f.listen)
	if err != nil {
		return hinted{unavailableError{fmt.Errorf("listen on %s: %w", f.listen, listenReason(err))}, []string{"another address   --listen 127.0.0.1:PORT"}}
	}
	defer ln.Close()
	client, err := idem.Dial(a.redisURL, 64)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := patiently(ctx, a.stderr, f.connectTimeout, func(ctx context.Context) error { return idem.Ping(ctx, client, a.redisURL) }); err != nil {
		return stopped(err)
	}
	if err := seed(ctx, lab.NewSettings(client, a.ns())); err != nil {
		return stopped(because(ctx, err))
	}
	server := api.New(a.apiConfig(client, f, !loopback(ln.Addr().String())))
	defer server.Close()
	if err := patiently(ctx, a.stderr, f.connectTimeout, server.Connect); err != nil {
		return stopped(err)
	}
	if !loopback(ln.Addr().String()) {
		fmt.Fprintf(a.stderr, "notifylab: warning: %s is no loopback: everyone who reaches it can send, switch and delete\n", ln.Addr())
	}
	fmt.Fprintf(a.stderr, "api at http://%s (try: curl -s http://%s/healthz)\n", ln.Addr(), ln.Addr())
	s := server.HTTPServer()
	s.ErrorLog = log.New(a.stderr, "notifylab: ", 0)
	return serveUntilStopped(ctx, s, ln, f.grace)
}

func (a *app) apiConfig(client idem.Client, f apiFlags, anyHost bool) api.Config {
	return api.Config{
		Namespace: a.ns(), Redis: client, Modes: apiModes(), Text: defaultText, Timeout: f.publishTimeout, AnyHost: anyHost,
		Dial: func(ctx context.Context, name string) (*broker.Conn, error) {
			return broker.Dial(ctx, a.broker(name, 10*time.Second, 4*time.Second))
		},
		Topology: broker.Topology{Names: broker.Names{Namespace: a.ns()}, Channels: notify.Channels(), Type: broker.QueueType(f.queueType)},
		Declared: func(ctx context.Context, t broker.Topology) {
			_ = lab.NewNotes(client, a.ns(), 0).Declared(ctx, string(t.Type), t.QueueNames()...) // a comfort for queues
		},
	}
}

func apiModes() map[string]api.Mode {
	all := map[string]api.Mode{}
	for name, m := range modes() {
		all[name] = api.Mode{User: m.user, Channels: m.channels, Crash: m.crash}
	}
	return all
}

// serveUntilStopped serves until ctx ends, then answers what is in hand.
func serveUntilStopped(ctx context.Context, s *http.Server, ln net.Listener, grace time.Duration) error {
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	select {
	case err := <-served:
		return unavailableError{fmt.Errorf("serve: %w", err)}
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	late := s.Shutdown(closing)
	if late != nil {
		s.Close()
	}
	<-served
	if late != nil {
		return statusError{exitFinding, "what was in hand took longer than the grace"}
	}
	return stopped(context.Cause(ctx))
}

// checkListen checks an address to listen on, that of a flag.
func checkListen(flag, address, example string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return usagef("--%s %q: want HOST:PORT, such as %s", flag, address, example)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return usagef("--%s %q: want a port from 1 to 65535, or 0 for any that is free, such as %s", flag, address, example)
	}
	return nil
}

// listenReason is the system's reason alone.
func listenReason(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
