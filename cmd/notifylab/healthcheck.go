package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

// healthcheckCommand is for container images, which have neither a shell nor curl.
// It is no part of the lab, so that help doesn't show it.
func (a *app) healthcheckCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:    "healthcheck URL",
		Hidden: true,
		Short:  "Ask a URL whether it is well: 0, or 1",
		Long: `Exit status 0 if http://… is answered with 2xx, or tcp://HOST:PORT takes a
connection, else 1 and why. For health checks in images without a shell.`,
		Example: `  notifylab healthcheck http://127.0.0.1:9100/readyz
  notifylab healthcheck tcp://127.0.0.1:3200`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("which URL?")
			}
			u, err := url.Parse(args[0])
			if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "tcp" {
				return usagef("healthcheck: want http://HOST:PORT/PATH or tcp://HOST:PORT")
			}
			return nil
		},
		PersistentPreRunE: a.needsNoServers,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := answerWithin(cmd.Context(), timeout)
			defer cancel()
			if err := askHealth(ctx, args[0]); err != nil {
				return statusError{exitFinding, because(ctx, err).Error()}
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long it may take")
	return cmd
}

// askHealth returns nil if all is well at a URL that was checked.
func askHealth(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	if u.Scheme == "tcp" {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	// No proxy: what is asked is this machine's own.
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 200)) // a comfort
		return fmt.Errorf("%s: %s", res.Status, body)
	}
	return nil
}
