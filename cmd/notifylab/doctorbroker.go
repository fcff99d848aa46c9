package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
	"notifylab/internal/servers"
)

func (a *app) examineRabbit(ctx context.Context, f doctorFlags, tell func(symptom)) {
	conn, err := a.dialBroker(ctx, "doctor", 5*time.Second)
	if err != nil {
		tell(awaySymptom("RabbitMQ", err))
		return
	}
	defer conn.Close()
	tell(rabbitSymptom(conn.Server()))
	a.examineNodes(ctx, tell)
	w := f.worker
	tell(examineQueues(ctx, conn, w.topology(broker.Names{Namespace: a.ns()}, notify.Channels()...)))
	a.examineInside(ctx, nodeAt(conn.Addr(), a.amqpURL), f, tell)
}

// rabbitSymptom looks at a name and version: RabbitMQ 3.10.8.
func rabbitSymptom(server string) symptom {
	version := strings.TrimPrefix(server, "RabbitMQ ")
	s := symptom{What: "RabbitMQ", Status: fine, Is: version}
	var major, minor int
	switch _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); {
	case version == server || err != nil:
		s.Status, s.Is, s.Do = warning, server, "RabbitMQ 3.10 or newer: the lab has not met another broker"
	case major < 3 || major == 3 && minor < 10:
		s.Status, s.Do = bad, "RabbitMQ 3.10 or newer: dead-lettering at least once came with it"
	}
	return s
}

// examineQueues compares the queues that are there with what they should be. It
// makes none.
func examineQueues(ctx context.Context, conn *broker.Conn, t broker.Topology) symptom {
	s := symptom{What: "queues", Status: fine}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	there, err := conn.Compare(ctx, t)
	var conflict *broker.ConflictError
	switch {
	case errors.As(err, &conflict):
		s.Status, s.Is, s.Do = bad, conflict.Error(), "notifylab reset --yes (the lab's queues and keys), or rabbitmqctl delete_queue "+conflict.Queue+" (with what is in it), or another --namespace"
	case err != nil:
		s.Status, s.Is, s.Do = bad, err.Error(), "look into RabbitMQ's log"
	default:
		s.Is = fmt.Sprintf("%d of %d are there, with the right arguments", there, len(t.QueueNames()))
	}
	return s
}

// inside is what a broker tells only its own tools.
type inside struct {
	alarms  string // empty: none is set
	timeout string // of consumers, in milliseconds, or a word; empty: it does not tell
}

// examineInside looks at what AMQP doesn't show, by rabbitmqctl or else by the
// management API. Node is the URL of the node in use; it speaks for its cluster.
func (a *app) examineInside(ctx context.Context, node string, f doctorFlags, tell func(symptom)) {
	found, err := a.byRabbitmqctl(ctx, node)
	if err != nil {
		var other error
		if found, other = byManagement(ctx, node, f.management); other != nil {
			why := escape(err.Error() + "; " + other.Error())
			tell(symptom{What: "alarms", Status: unseen, Is: why})
			tell(symptom{What: "consumer time-out", Status: unseen, Is: why})
			return
		}
	}
	s := symptom{What: "alarms", Status: fine, Is: "none"}
	if found.alarms != "" {
		s.Status, s.Is = bad, found.alarms+": publishers are blocked"
		s.Do = "free memory or disk, or raise the limit (rabbitmq-diagnostics alarms, and the broker's log)"
	}
	tell(s)
	tell(consumerTimeout(found.timeout, f.worker))
}

// consumerTimeout compares the broker's patience with the longest that a worker has
// a delivery in hand: a busy one waits for a lease.
func consumerTimeout(text string, w workerFlags) symptom {
	s := symptom{What: "consumer time-out", Status: fine, Is: "none"}
	if text == "" {
		s.Status, s.Is = unseen, "the management API does not tell"
		return s
	}
	ms, err := time.ParseDuration(text + "ms")
	if err != nil {
		return s
	}
	longest := w.lease + w.sendTimeout + 4*idem.Timeout
	s.Is = event.Short(ms)
	if ms < longest {
		s.Status, s.Do = warning, fmt.Sprintf("consumer_timeout of more than %s: a delivery can be in hand that long, and the broker ends the session then", event.Short(longest))
	}
	return s
}

// insideQuery is one call for all, since each starts an Erlang of its own. The
// ports say whether it is the broker in use.
const insideQuery = `{[R || {{resource_limit, R, _}, _} <- rabbit_alarm:get_alarms()],` +
	` application:get_env(rabbit, consumer_timeout, undefined),` +
	` [P || {listener, _, amqp, _, _, P, _} <- rabbit_networking:active_listeners()]}.`

var insideAnswer = regexp.MustCompile(`^\{\[([a-z_,]*)\],(\w+),\[([\d,]*)\]\}$`)

// byRabbitmqctl asks the broker's own tool: that of the pair which servers up has
// started, if that is the broker in use, else the one on PATH, which reaches the
// machine's own node.
func (a *app) byRabbitmqctl(ctx context.Context, node string) (inside, error) {
	addr, err := broker.Addr(node)
	if err != nil {
		return inside{}, err
	}
	host, port, _ := net.SplitHostPort(addr)
	ctx, cancel := answerWithin(ctx, 30*time.Second) // it starts an Erlang, and may have a busy machine for that
	defer cancel()
	var text string
	if up, runs := servers.Running(a.state()); runs == nil && nodeAt(addr, up.AMQPURL) != "" {
		text, err = up.Rabbitmqctl(ctx, "eval", insideQuery)
	} else if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return inside{}, errors.New("no rabbitmqctl for a broker on another machine")
	} else {
		text, err = askRabbitmqctl(ctx, insideQuery)
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("rabbitmqctl: %w", context.Cause(ctx))
	}
	if err != nil {
		return inside{}, err
	}
	m := insideAnswer.FindStringSubmatch(strings.Join(strings.Fields(text), ""))
	if m == nil {
		return inside{}, errors.New("rabbitmqctl answers something else than was asked")
	}
	if !strings.Contains(","+m[3]+",", ","+port+",") {
		return inside{}, errors.New("rabbitmqctl reaches another broker")
	}
	return inside{alarms: strings.ReplaceAll(m[1], ",", ", "), timeout: m[2]}, nil
}

// askRabbitmqctl asks the one on PATH. It needs the broker's cookie, so often root.
// Without epmd, Erlang's port mapper, no node can be reached, and rabbitmqctl would
// start one that stays (3.10.8).
func askRabbitmqctl(ctx context.Context, query string) (string, error) {
	path, err := exec.LookPath("rabbitmqctl")
	if err != nil {
		return "", errors.New("no rabbitmqctl on PATH")
	}
	port := cmp.Or(os.Getenv("ERL_EPMD_PORT"), "4369")
	epmd, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("localhost", port))
	if err != nil {
		return "", errors.New("rabbitmqctl would reach no broker from here: no epmd at localhost:" + port)
	}
	_ = epmd.Close()
	cmd := exec.CommandContext(ctx, path, "--silent", "eval", query)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("rabbitmqctl reaches no broker from here (%w)", err)
	}
	return string(out), nil
}

// nodeAt returns the URL of the node at an address, of those that an AMQP URL names,
// or "" if none is there.
func nodeAt(addr, amqpURL string) string {
	normal := func(s string) string { return strings.Replace(s, "localhost:", "127.0.0.1:", 1) }
	nodes, _ := broker.Nodes(amqpURL)
	for _, node := range nodes {
		if at, _ := broker.Addr(node); normal(at) == normal(addr) {
			return node
		}
	}
	return ""
}

func checkManagement(address string) error {
	if u, err := url.Parse(address); address != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return usagef("--management-url: not http://HOST:15672") // not shown: it can have a password
	}
	return nil
}

// byManagement asks the management API for alarms, as the user of the node's URL. That
// user's password is shown to no other scheme than it came with.
func byManagement(ctx context.Context, node, address string) (inside, error) {
	amqp, err := url.Parse(node)
	if err != nil {
		return inside{}, broker.ErrURL
	}
	if address == "" {
		if amqp.Scheme != "amqp" {
			return inside{}, errors.New("no --management-url")
		}
		address = "http://" + net.JoinHostPort(amqp.Hostname(), "15672")
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+"/api/health/checks/alarms", nil)
	if err != nil {
		return inside{}, errors.New("--management-url does not parse")
	}
	user := cmp.Or(req.URL.User, amqp.User, url.UserPassword("guest", "guest"))
	password, _ := user.Password()
	req.SetBasicAuth(user.Username(), password)
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return inside{}, fmt.Errorf("no management API at %s", req.URL.Host)
	}
	defer res.Body.Close()
	var body struct {
		Status string
		Alarms []struct{ Resource string }
	}
	err = json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&body)
	switch {
	case err == nil && res.StatusCode == http.StatusOK && body.Status == "ok":
		return inside{}, nil
	case err == nil && res.StatusCode == http.StatusServiceUnavailable && body.Status == "failed":
		names := []string{"an alarm"}
		for i, r := range body.Alarms {
			names = append(names[:i], r.Resource)
		}
		return inside{alarms: strings.Join(names, ", ")}, nil
	}
	return inside{}, fmt.Errorf("the management API at %s answers %s", req.URL.Host, res.Status)
}
