package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"notifylab/internal/broker"
	"notifylab/internal/idem"
	"notifylab/internal/servers"
	"notifylab/internal/supervise"
)

func TestExitStatus(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for _, tt := range []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, 0},
		{"a finding", statusError{exitFinding, ""}, 1},
		{"a worker given up", supervise.ErrGaveUp, 1},
		{"usage", usagef("--count 0: at least 1"), 64},
		{"no RabbitMQ", &broker.UnreachableError{Addr: "h:1", Err: refused}, 69},
		{"no Redis", &idem.UnreachableError{Addr: "h:1", Err: refused}, 69},
		{"a refused password", fmt.Errorf("RabbitMQ at h:1: %w", broker.ErrAccessRefused), 69},
		{"a refused virtual host", broker.ErrNoVhost, 69},
		{"a queue with other arguments", &broker.ConflictError{Queue: "q"}, 69},
		{"nothing installed", servers.ErrNotInstalled, 69},
		{"a taken port", fmt.Errorf("listen: %w", syscall.EADDRINUSE), 69},
		{"a taken port of a pair", servers.ErrPortTaken, 69},
		{"no first session", unavailableError{errors.New("consume notify.push: no queue")}, 69},
		{"a Cluster's node", fmt.Errorf("more: %w", &idem.ClusterError{}), 69},
		{"Redis going away", fmt.Errorf("write settings: %w", refused), 69},
		{"Redis hanging up", fmt.Errorf("write settings: %w", io.EOF), 69},
		{"a surprise", errors.New("index out of range"), 70},
		{"inconclusive", statusError{exitInconclusive, ""}, 75},
		{"SIGINT", interrupted{syscall.SIGINT}, 130},
		{"SIGTERM", interrupted{syscall.SIGTERM}, 143},
		{"SIGHUP", interrupted{syscall.SIGHUP}, 129},
		{"SIGTERM while dialling", unavailableError{&broker.UnreachableError{Err: interrupted{syscall.SIGTERM}}}, 143},
		{"SIGINT and a clean-up that failed", errors.Join(interrupted{syscall.SIGINT}, refused), 130},
		{"nobody reads", errOutputClosed, 141},
		{"nobody reads what is printed", outputError(&os.PathError{Op: "write", Err: syscall.EPIPE}), 141},
		{"a full disk", outputError(&os.PathError{Op: "write", Err: syscall.ENOSPC}), 69},
		{"nobody reads any more", fmt.Errorf("write: %w", syscall.EPIPE), 141},
	} {
		if got := exitStatus(tt.err); got != tt.want {
			t.Errorf("%s (%v): %d, want %d", tt.name, tt.err, got, tt.want)
		}
		if wrapped := exitStatus(fmt.Errorf("more: %w", tt.err)); tt.err != nil && wrapped != tt.want {
			t.Errorf("%s, wrapped: %d, want %d", tt.name, wrapped, tt.want)
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	const pair, docker = "  a private pair   notifylab servers up", "  or with Docker   docker compose up -d --wait rabbitmq redis"
	for _, tt := range []struct {
		name string
		err  error
		want []string
	}{
		{"no RabbitMQ", &broker.UnreachableError{Addr: "localhost:5672", Err: refused},
			[]string{"notifylab: RabbitMQ does not answer at localhost:5672: connection refused", pair, docker}},
		{"no Redis", &idem.UnreachableError{Addr: "localhost:6379", Err: refused},
			[]string{"notifylab: Redis does not answer at localhost:6379: connection refused", pair, docker}},
		{"a Cluster's node", &idem.ClusterError{Addr: "a:1", URL: "redis://user:password@a:1?addr=b:2"},
			[]string{"notifylab: Redis at a:1 is a Cluster, but --redis-url names one node of it",
				"  name the others, too   --redis-url 'redis://user:password@a:1?addr=b:2'   or by $REDIS_URL"}},
		{"none installed", fmt.Errorf("find redis-server: %w", servers.ErrNotInstalled),
			[]string{"notifylab: find redis-server: not installed",
				"  install them     apt-get install rabbitmq-server redis-server   (macOS: brew install rabbitmq redis)", docker}},
		{"another queue", &broker.ConflictError{Queue: "notify.push", Argument: "x-delivery-limit", Want: "100", Got: "5"},
			[]string{"notifylab: queue notify.push exists with another x-delivery-limit: 5 there, 100 wanted",
				"  nothing was changed. Delete the lab's queues and keys   notifylab reset --yes   (and --namespace, if one was given)",
				"  or that queue alone, with what is in it                 rabbitmqctl delete_queue notify.push",
				"  or stay out of its way                                  --namespace NAME"}},
		{"text from outside", errors.New("broker says\nnotifylab: \x1b[2Jall is well"),
			[]string{"notifylab: broker says", `    notifylab: \x1b[2Jall is well`,
				"  this is a bug in notifylab, or something that it should have foreseen"}},
		{"a password in what was typed", usagef("unknown command %q", "amqp://u:S3cr3t@h/"), []string{`notifylab: unknown command "amqp://***@h/"`}},
		{"a password with signs", usagef("%q", "amqp://u:S3/cr@3t@h/"), []string{`notifylab: "amqp://***@h/"`}},
		{"how a URL is written", usagef("$AMQP_URL: %w", broker.ErrURL), []string{"notifylab: $AMQP_URL: not an AMQP URL (amqp://user:password@host:5672/vhost, or several with commas between)"}},
		{"a signal", interrupted{syscall.SIGINT}, nil},
		{"a signal, elsewhere", context.Canceled, nil},
		{"nobody reads", errOutputClosed, nil},
		{"what was printed before", statusError{exitFinding, ""}, nil},
	} {
		var out strings.Builder
		report(&out, tt.err)
		want := ""
		for _, l := range tt.want {
			want += l + "\n"
		}
		if out.String() != want {
			t.Errorf("%s:\n%swant:\n%s", tt.name, out.String(), want)
		}
	}
}
