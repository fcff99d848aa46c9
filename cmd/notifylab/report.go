package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"syscall"

	"notifylab/internal/broker"
	"notifylab/internal/idem"
	"notifylab/internal/servers"
)

// report prints an error and what to do about it.
func report(w io.Writer, err error) {
	var sig interrupted
	if err.Error() == "" || errors.Is(err, errOutputClosed) || errors.Is(err, syscall.EPIPE) || errors.As(err, &sig) || errors.Is(err, context.Canceled) {
		return
	}
	fmt.Fprintf(w, "notifylab: %s\n", escapeLines(redact(err.Error())))
	for _, h := range hints(err) {
		fmt.Fprintf(w, "  %s\n", h)
	}
	if exitStatus(err) == exitBug {
		fmt.Fprintln(w, "  this is a bug in notifylab, or something that it should have foreseen")
	}
}

// userinfo is where a password stands in whatever looks like a URL.
var userinfo = regexp.MustCompile(`://\S*@`)

// redact hides what may be a password. No error of ours has a server's URL in it,
// but one that quotes what was typed can.
func redact(s string) string {
	return userinfo.ReplaceAllStringFunc(s, func(found string) string {
		if found == "://user:password@" { // how a URL is written, in broker.ErrURL and idem.ErrURL
			return found
		}
		return "://***@"
	})
}

// hints says what helps, by kind of error.
func hints(err error) []string {
	var h hinted
	if errors.As(err, &h) {
		return h.hints
	}
	var mq *broker.UnreachableError
	var redis *idem.UnreachableError
	var conflict *broker.ConflictError
	var cluster *idem.ClusterError
	switch {
	case errors.As(err, &cluster):
		return []string{"name the others, too   --redis-url '" + cluster.URL + "'   or by $REDIS_URL"}
	case errors.As(err, &conflict):
		return []string{
			"nothing was changed. Delete the lab's queues and keys   notifylab reset --yes   (and --namespace, if one was given)",
			"or that queue alone, with what is in it                 rabbitmqctl delete_queue " + conflict.Queue,
			"or stay out of its way                                  --namespace NAME",
		}
	case errors.As(err, &redis) && redis.Refused():
		return []string{"user and password are those of --redis-url or $REDIS_URL"}
	case errors.As(err, &mq), errors.As(err, &redis):
		return startServers
	case errors.Is(err, broker.ErrAccessRefused):
		return []string{"user and password are those of --amqp-url or $AMQP_URL"}
	case errors.Is(err, broker.ErrTLS), errors.Is(err, idem.ErrTLS):
		return []string{
			"trust who has signed its certificate   SSL_CERT_FILE=ca.pem   (macOS: the keychain)",
			"or do without TLS                      amqp://, redis://",
		}
	case errors.Is(err, broker.ErrNoVhost):
		return []string{"the virtual host is the path of --amqp-url or $AMQP_URL; the usual one is / and written %2f or left out"}
	case errors.Is(err, servers.ErrNotInstalled):
		return installServers
	}
	return nil
}

var startServers = []string{
	"a private pair   notifylab servers up",
	"or with Docker   docker compose up -d --wait rabbitmq redis",
}

var installServers = []string{
	"install them     apt-get install rabbitmq-server redis-server   (macOS: brew install rabbitmq redis)",
	"or with Docker   docker compose up -d --wait rabbitmq redis",
}
