package main

import (
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"

	"notifylab/internal/scenario"
	"notifylab/internal/servers"

	"github.com/spf13/cobra"
)

const secret = "S3cr3t"

// secretRuns has a run of each command, with the words at which it is in full swing, if
// its servers let it; none: it ends by itself, or runs on and has little to say.
func secretRuns() map[string]string {
	return map[string]string{
		"scenario dead-letter": "RETRY", "scenario list": "", "scenario all": "READY", "scenario": "",
		"matrix --only lease/after-send/kill": "", "soak --duration 1m": "READY",
		"produce": "confirmed", "worker push --connect-timeout 1s": "READY", "supervise --connect-timeout 1s": "READY",
		"provider --listen 127.0.0.1:0": "", "api --listen 127.0.0.1:0 --connect-timeout 1s": "",
		"settings": "", "settings set idempotency=on": "", "settings reset": "", "queues": "", "records": "", "events": "",
		"dlq": "", "dlq list push": "", "dlq show push": "", "dlq replay push --all": "", "dlq purge push --yes": "", "reset --yes": "",
		"expire --direct": "", "expire --log": "", "reaction notify": "READY", "reader c1": "ASSIGNED", "groups": "",
		"servers": "", "servers down": "", "doctor": "", "healthcheck tcp://" + nowhere: "",
		"completion": "", "completion bash": "", "help produce": "", "": "",
		"bench --only workers --workers 1 --rounds 50": aWorker,
	}
}

// aWorker is the swing of what says nothing by then: a worker runs.
const aWorker = "a worker"

// unaddressed are the commands that never see the servers' addresses, or see them as
// another does that has a run.
func unaddressed(cmd *cobra.Command) bool {
	switch cmd.CommandPath() {
	case "notifylab servers up", "notifylab servers run", "notifylab servers hold": // of servers that they start
		return true
	case "notifylab completion zsh", "notifylab completion fish", "notifylab completion powershell":
		return true
	}
	return cmd.HasParent() && cmd.Parent().Name() == "scenario" &&
		slices.ContainsFunc(scenario.Catalogue(), func(s scenario.Scenario) bool { return s.Name == cmd.Name() })
}

func TestSecretRuns_leave_no_command_out(t *testing.T) {
	t.Parallel()
	root := (&app{}).root()
	had := map[*cobra.Command]bool{}
	for args := range secretRuns() {
		cmd, _, err := root.Find(strings.Fields(args))
		if err != nil {
			t.Errorf("%s: %v", args, err)
		}
		had[cmd] = true
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if !had[cmd] && !unaddressed(cmd) {
			t.Errorf("%s has no run", cmd.CommandPath())
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(root)
}

// The password of the broker is in no output and in no argument of a process.
// (wagslane/go-rabbitmq#190)
func testNoPasswordShows(t *testing.T, pair *servers.Pair) {
	rabbitmqctl(t, pair, "set_permissions", "-p", "/", "u", ".*", ".*", ".*")
	u, err := url.Parse(pair.AMQPURL)
	do(t, "parse", err)
	// The default user of Redis has no password, and takes any.
	redis := strings.Replace(pair.RedisURL, "redis://", "redis://:"+secret+"@", 1)
	for name, address := range map[string]string{
		"right":     "amqp://u:" + secret + "@" + u.Host + "/",
		"wrong":     "amqp://u:wrong" + secret + "@" + u.Host + "/",
		"vhost":     "amqp://u:" + secret + "@" + u.Host + "/none",
		"away":      "amqp://u:" + secret + "@" + nowhere,
		"malformed": "amqp://u:" + secret + "@host:port",
	} {
		for args, swing := range secretRuns() {
			outputs := []string{"-v", "-o json"}
			if name == "right" {
				args = strings.Replace(args, " --connect-timeout 1s", "", 1) // it will answer
			} else {
				swing, outputs = "", []string{"-v -o json"}
				if strings.HasPrefix(args, "soak") && name != "malformed" {
					continue // it starts servers of its own, whatever there is
				}
			}
			for _, more := range outputs {
				t.Run(name+" "+args+" "+more, func(t *testing.T) {
					t.Parallel()
					wantNoSecret(cornerAt(t, address, redis), strings.Fields(args+" "+more), swing)
				})
			}
		}
	}
}

func forever(args []string) bool { return args[0] == "provider" || args[0] == "api" }

func wantNoSecret(c corner, args []string, swing string) {
	c.t.Helper()
	r := c.start(args...)
	switch {
	case swing == aWorker:
		c.awaitWorkers(1)
	case swing != "":
		r.await(swing, func() bool { return strings.Contains(strings.ToLower(r.text()), strings.ToLower(swing)) })
	case forever(args):
		r.await("first words", func() bool { return len(r.errors()) > 0 })
	}
	for pid, command := range c.processes() {
		if strings.Contains(command, secret) {
			c.t.Errorf("%s: argument of %s: %s", r.name, pid, command)
		}
	}
	if swing != "" || forever(args) {
		r.signal(syscall.SIGTERM)
	}
	r.wait()
	if strings.Contains(r.all(), secret) {
		c.t.Errorf("%s with %s\n%s", r.name, c.amqp, r.all())
	}
}
