package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"notifylab/internal/event"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
	"notifylab/internal/scenario"
)

// scenarioFlags are those of every scenario.
type scenarioFlags struct {
	idempotency, claimLease, providerKey string
	expect                               string
	repeat                               int
	keep                                 bool
	timeout                              time.Duration
	each                                 bool // scenario has its own time-out
	spike                                int
	seed                                 int64
	junit                                string
}

// register adds the flags.
func (f *scenarioFlags) register(set *pflag.FlagSet, limit time.Duration) {
	set.Var(newSwitch(&f.idempotency), "idempotency", "on or off instead of what the lesson has; judged by what the protocol predicts then")
	set.Var(newSwitch(&f.claimLease), "claim-lease", "on or off, likewise")
	set.Var(newSwitch(&f.providerKey), "provider-key", "on or off, likewise")
	set.Var(newChoice(&f.expect, "", "once", "twice", "lost", "parked"), "expect", "judge this outcome instead, for CI: once, twice, lost or parked")
	set.IntVar(&f.repeat, "repeat", 1, "run it that often; all must agree")
	set.BoolVar(&f.keep, "keep", false, "leave its queues and keys, to look around after")
	set.DurationVar(&f.timeout, "timeout", limit, "after that it is inconclusive")
	set.StringVar(&f.junit, "junit", "", "write a JUnit report to this file, too")
	set.IntVar(&f.spike, "spike", scenario.DefaultSpike, "how many passes expire at once in direct-call")
	set.Int64Var(&f.seed, "seed", 0, "what is left to chance in a run comes from this; 0: a new one")
}

// maxRunNamespace leaves room for what makes a run's namespace its own.
const maxRunNamespace = 35

func (f *scenarioFlags) check(ns notify.Namespace) error {
	if f.spike < 1 || f.spike > 100_000 {
		return usagef("--spike %d: from 1 to 100000", f.spike)
	}
	return checkRuns(ns, f.repeat, f.timeout)
}

// checkRuns checks what all have that play in namespaces of their own.
func checkRuns(ns notify.Namespace, repeat int, timeout time.Duration) error {
	switch {
	case repeat < 1:
		return usagef("--repeat %d: at least 1", repeat)
	case len(ns) > maxRunNamespace:
		return usagef("--namespace %q: a scenario puts five characters of its own behind it, so at most %d", ns, maxRunNamespace)
	case timeout <= 0:
		return usagef("--timeout %v: more than 0", timeout)
	}
	return nil
}

// limit is how long a scenario may take.
func (f *scenarioFlags) limit(s scenario.Scenario) time.Duration {
	if f.each {
		return s.Limit()
	}
	return f.timeout
}

// given are the flags that decide how a run is judged, as they were typed, as far as
// they mean something to s.
func (f *scenarioFlags) given(s scenario.Scenario) string {
	text, none := "", meaningless(s)
	for _, given := range []struct{ name, value string }{
		{"idempotency", f.idempotency}, {"claim-lease", f.claimLease}, {"provider-key", f.providerKey}, {"expect", f.expect},
	} {
		if given.value != "" && none[given.name] == "" {
			text += " --" + given.name + " " + given.value
		}
	}
	if s.Spikes && f.spike != scenario.DefaultSpike {
		text += fmt.Sprintf(" --spike %d", f.spike)
	}
	return text
}

// settings are the lesson's own, but for those given as flags, if it has any.
func (f *scenarioFlags) settings(s scenario.Scenario) event.Settings {
	own := s.Settings
	if s.Unset {
		return own
	}
	for _, given := range []struct {
		flag string
		is   *bool
	}{{f.idempotency, &own.Idempotency}, {f.claimLease, &own.ClaimLease}, {f.providerKey, &own.ProviderKey}} {
		if given.flag != "" {
			*given.is = given.flag == "on"
		}
	}
	return own
}

func (f *scenarioFlags) keeps(s scenario.Scenario) bool { return f.keep && !s.Harms }

// asItStands says whether nothing was asked of s but what it has of its own.
func (f *scenarioFlags) asItStands(s scenario.Scenario) bool {
	return f.settings(s) == s.Settings && f.expect == "" && (!s.Spikes || f.spike == scenario.DefaultSpike)
}

// meaningless names the flags that mean nothing to a scenario, by what it declares, and
// why.
func meaningless(s scenario.Scenario) map[string]string {
	none := map[string]string{}
	if s.Unset {
		for _, name := range lab.Fields() {
			none[name] = "it runs no worker that reads settings"
		}
	}
	if s.Harms {
		none["keep"] = "its RabbitMQ and Redis are its own and end with it, so nothing can be kept"
	}
	if !s.Spikes {
		none["spike"] = "it has no spike"
	}
	return none
}

// refuseMeaningless hides what means nothing to a scenario, and has it answered with why.
func refuseMeaningless(cmd *cobra.Command, s scenario.Scenario) {
	none := meaningless(s)
	for name := range none {
		_ = cmd.Flags().MarkHidden(name)
	}
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		cmd.Flags().Visit(func(flag *pflag.Flag) {
			if why, ok := none[flag.Name]; ok && err == nil {
				err = usagef("--%s: not for %s: %s", flag.Name, s.Name, why)
			}
		})
		return err
	}
}

func (a *app) scenarioCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "scenario",
		GroupID: groupLearn,
		Short:   "Play a lesson end to end, and judge it by the provider's ledger",
		Long: `Each scenario puts up a stage of its own (a namespace on the servers, a provider,
workers as child processes), does one thing to it with real signals, waits for events
and never for time, and judges what became of the notification by the provider's
ledger. It uses the servers that answer; if none do and no URL was given, it starts a
private pair and stops it after. Those that harm servers always have a pair of their own.

Exit status: 0 as predicted (a bug that is reproduced on purpose, too), 1 not as
predicted, 75 inconclusive, 69 no servers, 64 wrong usage.`,
		Example: `  notifylab scenario list
  notifylab scenario crash-claim
  notifylab scenario crash-claim --help
  notifylab scenario all`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return helpedBy("notifylab scenario list", unknown("scenario", args[0], "", commandNames(cmd)))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.listCommand(), a.allCommand())
	for _, s := range scenario.Catalogue() {
		cmd.AddCommand(a.playCommand(s))
	}
	return cmd
}

// playCommand makes a command of one scenario: its help is the lesson.
func (a *app) playCommand(s scenario.Scenario) *cobra.Command {
	var f scenarioFlags
	cmd := &cobra.Command{
		Use:     s.Name,
		Short:   s.Shows,
		Long:    lesson(s),
		Example: "  notifylab scenario " + s.Name,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(a.ns()); err != nil {
				return err
			}
			return a.play(cmd.Context(), []scenario.Scenario{s}, f)
		},
	}
	f.register(cmd.Flags(), s.Limit())
	refuseMeaningless(cmd, s)
	return cmd
}

func (a *app) allCommand() *cobra.Command {
	var f scenarioFlags
	var which selection
	cmd := &cobra.Command{
		Use:   "all",
		Short: "Play every scenario, one after another",
		Long: `Plays every scenario, or those that --tag and --skip choose. A flag is for those that
it means something to: those of the second chapter have no settings and are played as
they are, and of those that harm servers nothing can be kept.`,
		Example: "  notifylab scenario all\n  notifylab scenario all --tag lesson --skip fan-out",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(a.ns()); err != nil {
				return err
			}
			scenarios, err := which.scenarios()
			if err != nil {
				return err
			}
			f.each = !cmd.Flags().Changed("timeout")
			return a.play(cmd.Context(), scenarios, f)
		},
	}
	f.register(cmd.Flags(), scenario.Scenario{}.Limit())
	cmd.Flags().Lookup("timeout").Usage += fmt.Sprintf("; those that harm servers have %s unless it is given", event.Short(scenario.Scenario{Harms: true}.Limit()))
	which.register(cmd.Flags())
	return cmd
}

func (a *app) listCommand() *cobra.Command {
	var which selection
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the scenarios: what each shows, and how it ended last",
		Long: `Lists the scenarios in the order of the story: what each shows, the outcome that it
reproduces or guards, and how its last run ended. That is the last one as the scenario
stands: runs with other settings, --expect or --spike don't count.

Tags say what a scenario is about: what is done in it, or what takes part. They are no
outcomes, which the column has.`,
		Example: "  notifylab scenario list\n  notifylab scenario list --tag parked",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			scenarios, err := which.scenarios()
			if err != nil {
				return err
			}
			a.list(scenarios, which)
			return nil
		},
	}
	which.register(cmd.Flags())
	return cmd
}

// play runs scenarios on the servers there are, or on a private pair.
func (a *app) play(ctx context.Context, scenarios []scenario.Scenario, f scenarioFlags) (err error) {
	for _, s := range scenarios {
		if err := s.Check(f.settings(s)); err != nil {
			if len(scenarios) > 1 {
				err = fmt.Errorf("%s: %w", s.Name, err)
			}
			return usageError{err}
		}
	}
	report, err := openJUnit(f.junit)
	if err != nil {
		return err
	}
	r := &runner{app: a, flags: f, many: len(scenarios)*f.repeat > 1}
	defer func() { // of what was played, however it ended
		var all []judged
		for _, e := range r.ends {
			all = append(all, r.judged(e))
		}
		if failed := report.close(all); failed != nil {
			err = errors.Join(err, unavailableError{failed})
		}
	}()
	ctx, cancel, done := a.signals(ctx, syscall.SIGHUP)
	defer done()
	r.cancel = cancel
	defer r.closePlaces()
	defer r.reportLeft()
	for _, s := range scenarios {
		if err := r.play(ctx, s); err != nil {
			return err
		}
	}
	return r.end()
}
