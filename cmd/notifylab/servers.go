package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"notifylab/internal/servers"
)

func (a *app) serversCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "servers",
		GroupID: groupSetUp,
		Short:   "Start and stop a private RabbitMQ and Redis",
		Long: `A private pair of RabbitMQ and Redis, made of the programs that are installed on this
machine, on 127.0.0.1 only, with data of its own that goes when it stops. Either can be
a cluster. It never touches servers that it did not start.`,
		Example: `  notifylab servers up
  notifylab servers down
  notifylab servers run -- go test ./...`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.upCommand(), a.downCommand(), a.lendCommand(), a.holdCommand())
	return cmd
}

func (a *app) upCommand() *cobra.Command {
	var amqpPort, redisPort int
	var clusters clusterFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a pair in the background, where every other command finds it",
		Long: `Starts a pair, prints its addresses, and lets it run until notifylab servers down.
notifylab finds it by itself, whatever its ports and however many servers it is, unless
--amqp-url, --redis-url, $AMQP_URL or $REDIS_URL name others. Other programs, and
notifylab with another --state-dir, are told by

  export $(notifylab servers up)

also when it is up already. (Not by eval: a Cluster's address has a & in it.)`,
		Example: "  notifylab servers up\n  notifylab servers up --rabbit-nodes 3 --redis cluster",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel, done := a.signals(cmd.Context())
			defer done()
			for _, f := range []struct {
				name string
				port int
			}{{"amqp-port", amqpPort}, {"redis-port", redisPort}} {
				if f.port < 0 || f.port > 65535 {
					return usagef("--%s %d: from 0, any that is free, to 65535", f.name, f.port)
				}
			}
			o, err := clusters.options()
			if err != nil {
				return err
			}
			o.AMQPPort, o.RedisPort = amqpPort, redisPort
			began := time.Now()
			if _, err := servers.Running(a.state()); err != nil {
				fmt.Fprintln(a.stderr, starting(o))
			}
			info, already, err := servers.Up(ctx, a.state(), o)
			if err != nil {
				return because(ctx, unavailableError{portHint(err)})
			}
			if already {
				if differs := otherwise(info, o, cmd.Flags().Changed); differs != "" {
					return unavailableError{hinted{errors.New("already up, but with " + differs), anew()}}
				}
				if err := a.alreadyUp(info); err != nil {
					return err
				}
			} else {
				fmt.Fprintf(a.stderr, "ready after %.1f s\n", time.Since(began).Seconds())
			}
			if out := a.printer(cancel); out.json {
				out.object(map[string]any{"kind": "servers", "amqp_url": info.AMQPURL, "redis_url": info.RedisURL})
			} else {
				for _, line := range info.Env() {
					out.linef("%s", line)
				}
			}
			if cause := context.Cause(ctx); !errors.As(cause, new(interrupted)) { // which is too late
				return cause
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&amqpPort, "amqp-port", 5672, "RabbitMQ's port, of its first node; 0: any that is free")
	cmd.Flags().IntVar(&redisPort, "redis-port", 6379, "Redis's port, of its first node; 0: any that is free")
	clusters.register(cmd.Flags())
	return cmd
}

// alreadyUp says so, and which of the servers have died. A cluster can do without some,
// a pair needs both.
func (a *app) alreadyUp(i servers.Info) error {
	var dead []string
	for _, m := range i.Dead() {
		dead = append(dead, string(m.Server))
	}
	switch names := strings.Join(dead, ", "); {
	case names == "":
		fmt.Fprintln(a.stderr, "already up")
	case len(i.Members) > 2:
		fmt.Fprintf(a.stderr, "already up, but for what has died: %s (anew: notifylab servers down; notifylab servers up)\n", names)
	default:
		return unavailableError{hinted{fmt.Errorf("already up, but %s has died", names), anew()}}
	}
	return nil
}

func anew() []string {
	return []string{"start them anew   notifylab servers down; notifylab servers up"}
}

// otherwise says what of the servers that are up is not as it was asked for by flags.
func otherwise(i servers.Info, o servers.Options, asked func(flag string) bool) string {
	var rabbit, redis []servers.Member
	for _, m := range i.Members {
		if strings.HasPrefix(string(m.Server), string(servers.RabbitMQ)) {
			rabbit = append(rabbit, m)
		} else {
			redis = append(redis, m)
		}
	}
	switch {
	case asked("rabbit-nodes") && len(rabbit) != o.RabbitNodes:
		return "RabbitMQ of " + count(len(rabbit), "node")
	case asked("redis") && o.RedisCluster != (len(redis) > 1):
		return map[bool]string{true: "a Redis Cluster", false: "a single Redis"}[len(redis) > 1]
	case asked("amqp-port") && o.AMQPPort != 0 && rabbit[0].Port != o.AMQPPort:
		return fmt.Sprintf("RabbitMQ on port %d", rabbit[0].Port)
	case asked("redis-port") && o.RedisPort != 0 && redis[0].Port != o.RedisPort:
		return fmt.Sprintf("Redis on port %d", redis[0].Port)
	}
	return ""
}

// clusterFlags say how many servers a private pair is.
type clusterFlags struct {
	rabbitNodes int
	redis       string
}

func (f *clusterFlags) register(flags *pflag.FlagSet) {
	flags.IntVar(&f.rabbitNodes, "rabbit-nodes", 1, "RabbitMQ as a cluster of so many nodes")
	flags.StringVar(&f.redis, "redis", "single", "single, or cluster: three masters with a replica each")
}

func (f clusterFlags) options() (servers.Options, error) {
	const most = 7 // a quorum queue has no more members that help
	if f.rabbitNodes < 1 || f.rabbitNodes > most {
		return servers.Options{}, usagef("--rabbit-nodes %d: from 1 to %d", f.rabbitNodes, most)
	}
	if f.redis != "single" && f.redis != "cluster" {
		return servers.Options{}, usagef("--redis %q: single or cluster", f.redis)
	}
	return servers.Options{Holder: holder(), RabbitNodes: f.rabbitNodes, RedisCluster: f.redis == "cluster"}, nil
}

// starting says what is being started, and how long that takes on a machine that has
// nothing else to do.
func starting(o servers.Options) string {
	rabbit, redis, about := "RabbitMQ", "Redis", "about 8 s"
	if o.RabbitNodes > 1 {
		rabbit, about = fmt.Sprintf("RabbitMQ of %d nodes", o.RabbitNodes), "about 15 s"
	}
	if o.RedisCluster {
		redis = "Redis Cluster"
	}
	return fmt.Sprintf("starting a private %s and %s, %s …", rabbit, redis, about)
}

func portHint(err error) error {
	if errors.Is(err, servers.ErrPortTaken) {
		return hinted{err, []string{
			"servers that run already are used as they are; or take other ports:",
			"notifylab servers up --amqp-port 0 --redis-port 0",
		}}
	}
	return err
}

func (a *app) downCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "down",
		Short:   "Stop the pair that up has started, and remove its data",
		Example: "  notifylab servers down",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, _, done := a.signals(cmd.Context())
			defer done()
			err := servers.Down(ctx, a.state())
			if errors.Is(err, servers.ErrNotUp) {
				return statusError{exitFinding, err.Error()}
			}
			return because(ctx, err)
		},
	}
}

func (a *app) lendCommand() *cobra.Command {
	var clusters clusterFlags
	cmd := &cobra.Command{
		Use:   "run -- COMMAND [ARGUMENTS]",
		Short: "Run a command with a private pair of its own, by AMQP_URL and REDIS_URL",
		Long: `Starts a private pair on free ports, runs the command with AMQP_URL and REDIS_URL set
to it, passes signals on, stops the pair, and ends with the command's status (128 and
the signal's number if one ended it).`,
		Example: "  notifylab servers run -- go test ./...",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("which command? servers run -- COMMAND")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := clusters.options()
			if err != nil {
				return err
			}
			return a.lend(cmd.Context(), o, args)
		},
	}
	clusters.register(cmd.Flags())
	return cmd
}

// lend runs a command on a private pair.
func (a *app) lend(ctx context.Context, o servers.Options, args []string) error {
	if _, err := exec.LookPath(args[0]); err != nil {
		return usagef("run %s: %w", args[0], err)
	}
	ctx, cancel, done := a.signals(ctx)
	pair, err := a.privatePair(ctx, o)
	done()
	cancel(nil)
	if err != nil {
		return err
	}
	status, err := a.runWith(pair, args)
	closing, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	err = errors.Join(err, pair.Close(closing))
	if err == nil && status != 0 {
		return statusError{status, ""}
	}
	return err
}

// runWith runs the command and passes signals on to it. It is in our process
// group, so a Ctrl-C reaches it without us, once.
func (a *app) runWith(pair *servers.Pair, args []string) (int, error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, a.stdout, a.stderr
	cmd.Env = append(os.Environ(), pair.Env()...)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("run %s: %w", args[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			if s != syscall.SIGINT || !isTerminal(os.Stdin) {
				_ = cmd.Process.Signal(s)
			}
		case err := <-ended:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return 0, fmt.Errorf("run %s: %w", args[0], err)
			}
			if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
				return 128 + int(ws.Signal()), nil
			}
			return cmd.ProcessState.ExitCode(), nil
		}
	}
}

// privatePair starts a pair that ends with this process at the latest, and says
// so.
func (a *app) privatePair(ctx context.Context, o servers.Options) (*servers.Pair, error) {
	began := time.Now()
	if _, err := servers.Find(); err != nil {
		return nil, err
	}
	fmt.Fprint(a.stderr, starting(o), " ")
	pair, err := servers.Start(ctx, o)
	if err != nil {
		fmt.Fprintln(a.stderr)
		return nil, because(ctx, unavailableError{err})
	}
	fmt.Fprintf(a.stderr, "ready after %.1f s\n", time.Since(began).Seconds())
	return pair, nil
}

// holder is the command that holds a pair.
func holder() []string {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return []string{self, "servers", "hold"}
}

func (a *app) holdCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "hold",
		Hidden: true,
		Short:  "Hold a pair for the process at the other end of standard input",
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return servers.Hold(cmd.Context(), os.Stdin, a.stdout)
		},
	}
}
