package servers

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Info is what there is to know about a pair. The URLs are good for as long as
// the pair lives; the processes change when a server is started again.
type Info struct {
	AMQPURL  string   `json:"amqp_url"`  // of all its nodes
	RedisURL string   `json:"redis_url"` // of all its nodes
	Members  []Member `json:"members"`   // RabbitMQ's nodes, then Redis's
	EPMDPort int      `json:"epmd_port"`
	Dir      string   `json:"dir"` // all that the servers write; removed at the end
	Binaries Binaries `json:"binaries"`

	Holder Process `json:"holder"`
	EPMD   Process `json:"epmd"`
}

// Env is the pair's URLs as environment variables, the way notifylab and its
// children take them.
func (i Info) Env() []string {
	return []string{"AMQP_URL=" + i.AMQPURL, "REDIS_URL=" + i.RedisURL}
}

// Rabbitmqctl runs rabbitmqctl against the pair's RabbitMQ and returns what it
// wrote on standard output: the result alone, with neither headings nor progress.
// Of several nodes it asks the first that lives.
// If it fails, the error has what it wrote on standard error. It takes a second
// or two: each call starts an Erlang of its own.
func (i Info) Rabbitmqctl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, i.Binaries.Rabbitmqctl, append([]string{"--silent"}, args...)...)
	cmd.Env = i.erlangEnv(i.livingNode())
	cmd.Dir = i.home()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// The script and the Erlang below it are ended together.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("rabbitmqctl %s: %w: %s", strings.Join(args, " "), err, lastLines(stderr.Bytes(), 12))
	}
	return stdout.String(), nil
}

func (i Info) processes() []Process {
	all := []Process{i.Holder}
	for _, m := range i.Members {
		all = append(all, m.Process)
	}
	return append(all, i.EPMD)
}

// Everything of one boot is below run, so that a boot with other ports starts
// from nothing.
func (i Info) run() string            { return filepath.Join(i.Dir, "run") }
func (i Info) home() string           { return filepath.Join(i.run(), "home") }
func (i Info) logDir() string         { return filepath.Join(i.run(), "log") }
func (i Info) output(s string) string { return filepath.Join(i.logDir(), s+".out") }

// dir is where a Redis has its data.
func (i Info) dir(m Member) string { return filepath.Join(i.run(), m.file()) }
