package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"notifylab/internal/notify"
)

// run is the program: it returns its exit status.
func run(args []string, p process) int {
	a := &app{process: p}
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return exitOK
	}
	var status statusError
	if !a.started && !errors.As(err, &status) {
		err = usageError{err}
	}
	report(p.stderr, err)
	if exitStatus(err) == exitUsage && len(hints(err)) == 0 {
		fmt.Fprintf(p.stderr, "  help: %s --help\n", cmd.CommandPath())
	}
	return exitStatus(err)
}

// Groups of commands, in the order of --help.
const (
	groupLearn   = "learn"
	groupRun     = "run"
	groupPasses  = "passes"
	groupLook    = "look"
	groupSetUp   = "setup"
	groupMeasure = "measure"
)

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "notifylab",
		Short: "A reliability lab for notification delivery",
		Long: `notifylab runs the real thing: a producer, durable queues on a real RabbitMQ,
workers under a supervisor, an idempotency record in a real Redis, a provider. It
kills a worker at a named point, and judges from the provider's own ledger what
became of the notification: lost, delivered once, or delivered twice.

Begin with:  notifylab scenario crash-claim`,
		Example: `  notifylab scenario crash-claim
  notifylab produce --help`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.begin() },
		Args:              noSuchCommand,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Version:           "0.1",
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{plainValue(suggestFlag(cmd, err))} })
	root.AddGroup(
		&cobra.Group{ID: groupLearn, Title: "Learn:"},
		&cobra.Group{ID: groupRun, Title: "Run by hand:"},
		&cobra.Group{ID: groupPasses, Title: "Run by hand, from queue to log:"},
		&cobra.Group{ID: groupLook, Title: "Look, and change:"},
		&cobra.Group{ID: groupSetUp, Title: "Set up:"},
		&cobra.Group{ID: groupMeasure, Title: "Measure:"},
	)
	f := root.PersistentFlags()
	f.StringVar(&a.amqpURL, "amqp-url", "", "where RabbitMQ is, nodes with commas between; else $AMQP_URL, else those of servers up, else localhost")
	f.StringVar(&a.redisURL, "redis-url", "", "where Redis is; else $REDIS_URL, else that of servers up, else localhost")
	f.StringVar(&a.namespace, "namespace", "", "put this in front of every queue and key, to keep runs apart")
	f.VarP(newChoice(&a.output, "text", "text", "json"), "output", "o", "text, or json: an object a line and nothing else")
	f.Var(newChoice(&a.color, "auto", "auto", "always", "never"), "color", "colour: auto, always or never; auto asks NO_COLOR, FORCE_COLOR, TERM and the terminal")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "show acks and all of a scenario's notifications, too")
	f.StringVar(&a.stateDir, "state-dir", "", "directory for locks and records of this machine (default $XDG_STATE_HOME/notifylab, else in the temporary directory)")

	root.AddCommand(a.scenarioCommand(), a.matrixCommand(), a.soakCommand(),
		a.produceCommand(), a.workerCommand(), a.superviseCommand(), a.providerCommand(), a.apiCommand(),
		a.settingsCommand(), a.queuesCommand(), a.recordsCommand(), a.dlqCommand(), a.eventsCommand(), a.resetCommand(),
		a.expireCommand(), a.reactionCommand(), a.readerCommand(), a.groupsCommand(),
		a.serversCommand(), a.doctorCommand(), a.healthcheckCommand(), a.benchCommand())
	root.SetHelpCommand(a.helpCommand())
	root.SetCompletionCommandGroupID(groupSetUp)
	root.InitDefaultCompletionCmd()
	a.amendCompletion(root)
	completeChoices(root)
	return root
}

// helpCommand is cobra's, but for its answer to a command that there is not.
func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "help [COMMAND]",
		GroupID:           groupSetUp,
		Short:             "Help about any command",
		Example:           "  notifylab help scenario crash-claim",
		PersistentPreRunE: a.needsNoServers,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return usageError{err}
			}
			if len(rest) > 0 {
				return helpedBy(about.CommandPath()+" --help", unknown("command", rest[0], about.CommandPath(), commandNames(about)))
			}
			return about.Help()
		},
	}
}

// amendCompletion gives cobra's command what each of ours has.
func (a *app) amendCompletion(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Example = "  notifylab completion bash"
		cmd.PersistentPreRunE = a.needsNoServers
		cmd.Args, cmd.RunE = noSuchCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		for _, shell := range cmd.Commands() {
			shell.Example = "  notifylab completion " + shell.Name()
		}
	}
}

// needsNoServers begins a command that works whatever the servers' addresses are.
func (a *app) needsNoServers(*cobra.Command, []string) error {
	a.started = true
	return nil
}

// begin runs before every command, once flags and arguments are accepted.
func (a *app) begin() error {
	if _, err := notify.ParseNamespace(a.namespace); err != nil {
		return usageError{err}
	}
	if err := a.urls(); err != nil {
		return err
	}
	a.started = true
	return nil
}
