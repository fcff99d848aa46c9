package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"notifylab/internal/provider"
)

type providerFlags struct {
	listen          string
	delay, refuse   []string
	hang, hangAfter []string
	gate            []string
}

func (a *app) providerCommand() *cobra.Command {
	var p providerFlags
	cmd := &cobra.Command{
		Use:     "provider",
		GroupID: groupRun,
		Short:   "Run the lab's provider: it accepts, remembers, and misbehaves on request",
		Long: `The outside world as a server: POST /push or /email. It prints every call, keeps a
ledger (GET /ledger) and can be told to misbehave. A call that carries the
Idempotency-Key of one it has accepted is not accepted again; real push services
(APNs, FCM) have no such key. User 999's push is always refused with 400.

A fault is for every call, or for some: CHANNEL=…, user=USER:…, id=ID:…`,
		Example: `  notifylab provider
  notifylab provider --listen 127.0.0.1:3200 --delay email=2s
  notifylab provider --refuse user=42:410 --refuse email=503`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			faults, err := p.faults()
			if err != nil {
				return usageError{err}
			}
			if err := checkListen("listen", p.listen, "127.0.0.1:3200"); err != nil {
				return err
			}
			return a.provide(cmd.Context(), p.listen, faults)
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.listen, "listen", "127.0.0.1:3200", "address to listen on")
	f.StringArrayVar(&p.delay, "delay", nil, "answer (and accept) after this time: 2s, email=2s, user=42:2s")
	f.StringArrayVar(&p.refuse, "refuse", nil, "refuse with this status: 410, email=503, user=42:410")
	f.StringArrayVar(&p.hang, "hang", nil, "never answer and never accept: all, email, user=42, id=ID")
	f.StringArrayVar(&p.hangAfter, "accept-and-hang", nil, "accept, then never answer: all, email, user=42, id=ID")
	f.StringArrayVar(&p.gate, "gate", nil, "hold one id's call until another's has come: HOLD:UNTIL")
	return cmd
}

func (p providerFlags) faults() (provider.Faults, error) {
	var f provider.Faults
	for _, parse := range []func() error{
		parseAll(p.delay, provider.ParseDelay, &f.Delay),
		parseAll(p.refuse, provider.ParseRefuse, &f.Refuse),
		parseAll(p.hang, provider.ParseTarget, &f.Hang),
		parseAll(p.hangAfter, provider.ParseTarget, &f.AcceptHang),
		parseAll(p.gate, provider.ParseGate, &f.Gate),
	} {
		if err := parse(); err != nil {
			return f, err
		}
	}
	return f, nil
}

func parseAll[T any](texts []string, parse func(string) (T, error), to *[]T) func() error {
	return func() error {
		for _, s := range texts {
			v, err := parse(s)
			if err != nil {
				return err
			}
			*to = append(*to, v)
		}
		return nil
	}
}

// loopback says whether an address is reachable from this machine alone.
func loopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (a *app) provide(ctx context.Context, listen string, faults provider.Faults) error {
	ctx, cancel, done := a.signals(ctx)
	defer done()
	out := a.printer(cancel)
	running, err := provider.New(provider.Options{Emit: out.event, Faults: faults}).Listen(listen)
	if err != nil {
		return hinted{unavailableError{err}, []string{"another address   --listen 127.0.0.1:PORT"}}
	}
	if !loopback(listen) {
		fmt.Fprintf(a.stderr, "notifylab: %s is not the loopback: whoever reaches this machine can call the provider and read its ledger\n", escape(listen))
	}
	fmt.Fprintf(a.stderr, "provider at %s (ledger: curl %s/ledger)\n", running.URL(), running.URL())
	<-ctx.Done()
	closing, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	if err := running.Close(closing); err != nil {
		return err
	}
	return stopped(context.Cause(ctx))
}
