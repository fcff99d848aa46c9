package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/scenario"
)

type matrixFlags struct {
	only    []string
	repeat  int
	inHand  int
	without string
	timeout time.Duration
	junit   string
}

func (a *app) matrixCommand() *cobra.Command {
	var f matrixFlags
	cmd := &cobra.Command{
		Use:     "matrix",
		GroupID: groupLearn,
		Short:   "Play every setting, crash point and fault, and say which windows stay open",
		Long: `One message for each cell: under each setting, at each crash point, the worker is
killed, or stopped for so long that the broker gives it up and another worker takes its
message. Each cell has a namespace of its own, real worker processes, and a verdict by
the provider's ledger; eight are played at once. The whole takes about a minute or two.
A worker has one message in hand. With --concurrency 256 it has 255 others in hand with
it, each in a send that the provider has accepted and does not answer: what is done to
the worker at the one's point is done to them in their sends, and a cell holds only if
each of them comes to what is predicted for that, too. (Their sends may take longer
then: 15 s and a lease of 20 s where it is killed.)

A cell says how often the provider accepted the message.

  1        once
  2        twice
  0 lost   never, and it is nowhere any more
  1 late   once, by a worker that woke when the broker had forgotten the message;
           had it not woken, lost
  1 or 2   chance decides
  parked   among the dead letters, at least once
  –        there is no such place

A star marks cells where the workers' own SENT lines and the ledger disagree: that is
why logs can't judge. 2≠1 means: it came out as 2, and 1 was predicted; 2 (!): as 2,
as predicted, but not all that was checked is ok.

Faults
  kill     SIGKILL; the supervisor starts the worker again
  stop     SIGSTOP, of a worker with a heartbeat of 1 s, a lease of 8 s and a send
           time-out of 1 s (5 s with others in hand). A second worker starts; SIGCONT
           comes when the broker has given the first one up and the second has settled
           all it got
  twins    two copies of one message, the worker with the first one stopped until the
           other copy's worker has the record

--break takes one guard away from the workers, and plays the cells that must turn red:
a checker that can't fail is worth nothing.

` + guardsText() + `
Exit status: 0 as predicted, 1 not as predicted (with --break: red as it must be),
70 a missing guard was not noticed, 75 inconclusive, 69 no servers or too few open
files, 64 wrong usage.`,
		Example: `  notifylab matrix
  notifylab matrix --only lease/after-send/kill -v
  notifylab matrix --only lease/after-ack/kill --concurrency 256
  notifylab matrix --only record/after-claim/kill --only record/before-ack/kill --repeat 3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := f.matrix(a.ns())
			if err == nil {
				err = m.enoughFiles()
			}
			if err != nil {
				return err
			}
			return m.run(cmd.Context(), &runner{app: a, flags: scenarioFlags{timeout: f.timeout}}, f.junit)
		},
	}
	set := cmd.Flags()
	set.StringArrayVar(&f.only, "only", nil, "play this cell alone: SETTING/POINT/FAULT; may be repeated")
	set.IntVar(&f.repeat, "repeat", 1, "play it that often")
	set.IntVar(&f.inHand, "concurrency", 1, "messages that a worker has in hand: the one, and others beside it")
	set.Var(newChoice(&f.without, "", guardNames()...), "break", "take this guard away from the workers")
	set.DurationVar(&f.timeout, "timeout", time.Minute, "after that a cell is inconclusive")
	set.StringVar(&f.junit, "junit", "", "write a JUnit report to this file: a suite, a case for each cell")
	_ = cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(cellNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func guardNames() []string {
	var names []string
	for _, g := range scenario.Guards() {
		names = append(names, g.Name)
	}
	return names
}

func guardsText() string {
	text := ""
	for _, g := range scenario.Guards() {
		text += fmt.Sprintf("  %-15s  %s\n", g.Name, g.Is)
	}
	return text
}

func cellNames() []string {
	var names []string
	for _, c := range scenario.Cells() {
		names = append(names, c.String())
	}
	return names
}

// A matrix is one run of the command.
type matrix struct {
	cells   []scenario.Cell
	repeat  int
	inHand  int
	without scenario.Guard
}

// mostInHand is so many that all cells that are played at once find ports: each has
// three workers at most, and a port can be had again only after a while.
const mostInHand = 512

// matrix reads the flags.
func (f *matrixFlags) matrix(ns notify.Namespace) (*matrix, error) {
	if err := checkRuns(ns, f.repeat, f.timeout); err != nil {
		return nil, err
	}
	if f.inHand < 1 || f.inHand > mostInHand {
		return nil, usagef("--concurrency %d: from 1 to %d, since each has a connection to the provider", f.inHand, mostInHand)
	}
	m := &matrix{cells: scenario.Cells(), repeat: f.repeat, inHand: f.inHand}
	if i := slices.IndexFunc(scenario.Guards(), func(g scenario.Guard) bool { return g.Name == f.without }); i >= 0 {
		m.without = scenario.Guards()[i]
		m.cells = m.without.Cells()
	}
	if len(f.only) == 0 {
		return m, nil
	}
	var chosen []scenario.Cell
	for _, name := range f.only {
		c, err := scenario.FindCell(name)
		switch {
		case errors.Is(err, scenario.ErrUnknownCell):
			return nil, usagef("--only: %w%s", err, nearestOf(name, cellNames()))
		case err != nil:
			return nil, usagef("--only: %w", err)
		case !slices.ContainsFunc(m.cells, func(o scenario.Cell) bool { return o.String() == name }):
			return nil, usagef("--only %s: without %s those that must turn red are %s", name, f.without, strings.Join(m.without.Shows, ", "))
		}
		chosen = append(chosen, c)
	}
	m.cells = chosen
	return m, nil
}

// enoughFiles checks that this process may open as many files as its provider needs: two
// workers of each cell have a connection for each message in hand, and there is a rest.
func (m *matrix) enoughFiles() error {
	const rest = 512
	cells := min(len(m.cells), scenario.AtOnce)
	needs := uint64(2*m.inHand*cells + rest)
	var may unix.Rlimit
	if m.inHand == 1 || unix.Getrlimit(unix.RLIMIT_NOFILE, &may) != nil || may.Cur >= needs {
		return nil
	}
	return unavailableError{hinted{
		fmt.Errorf("--concurrency %d needs %d open files at once, and this process may have %d", m.inHand, needs, may.Cur),
		[]string{
			"fewer in hand     --concurrency " + strconv.FormatUint(max(1, (may.Cur-min(may.Cur, rest))/uint64(2*cells)), 10) + ", or some cells alone, by --only",
			fmt.Sprintf("or allow it more  ulimit -n %d, where the hard limit is no lower (ulimit -Hn)", needs),
		},
	}}
}

// run plays all rounds, and reports what was played, however it ended.
func (m *matrix) run(ctx context.Context, r *runner, junit string) (err error) {
	report, err := openJUnit(junit)
	if err != nil {
		return err
	}
	var all []scenario.Result
	defer func() {
		var cases []judged
		for _, res := range all {
			cases = append(cases, m.judgedCell(r, res))
		}
		if failed := report.close(cases); failed != nil {
			err = errors.Join(err, unavailableError{failed})
		}
	}()
	ctx, cancel, done := r.signals(ctx, syscall.SIGHUP)
	defer done()
	r.cancel = cancel
	defer r.closePlaces()
	at, err := r.place(ctx, scenario.Scenario{})
	if err != nil {
		return err
	}
	began := time.Now()
	out := r.printer(r.cancel)
	if !out.json {
		m.header(out, at.versions)
	}
	if err := m.rounds(ctx, r, at, out, &all); err != nil {
		return because(ctx, unavailableError{err}) // it could not be played
	}
	if ctx.Err() != nil { // nobody reads any more
		return context.Cause(ctx)
	}
	v := scenario.MatrixVerdict(all, m.without, time.Since(began).Milliseconds())
	v.RabbitMQ, v.Redis, v.Namespace = at.versions.rabbitmq, at.versions.redis, r.namespace
	if out.json {
		out.object(v)
	} else {
		m.ending(out, r, all, v)
	}
	return m.end(all, v)
}

// judgedCell is a cell as reports have it.
func (m *matrix) judgedCell(r *runner, res scenario.Result) judged {
	j := r.judged(ended{res.Cell.String(), res.Verdict})
	j.suite = "matrix"
	j.facts = append(j.facts, [2]string{"concurrency", strconv.Itoa(m.inHand)})
	return j
}

// rounds plays the cells as often as was asked for, and adds what came out to all.
// As JSON each is printed as it ends; else all are, in a table for each round.
func (m *matrix) rounds(ctx context.Context, r *runner, at *place, out *printer, all *[]scenario.Result) error {
	bar := r.progress(m.repeat*len(m.cells), "cells", !r.verbose)
	defer func() { _ = bar.Finish() }()
	for i := range m.repeat {
		from := len(*all)
		err := scenario.PlayCells(ctx, m.cells, m.config(r, at), func(res scenario.Result) {
			_ = bar.Add(1)
			res.RabbitMQ, res.Redis = at.versions.rabbitmq, at.versions.redis
			*all = append(*all, res)
			switch {
			case out.json:
				out.object(res)
			case r.verbose:
				r.story(out, res)
			}
		})
		if err != nil {
			return err
		}
		_ = bar.Clear()
		if out.json {
			continue
		}
		if m.repeat > 1 {
			out.linef("round %d of %d", i+1, m.repeat)
		}
		printMatrix(out, (*all)[from:])
	}
	return nil
}

// config says where a cell is played, by workers that lack the guard.
func (m *matrix) config(r *runner, at *place) func(scenario.Cell) scenario.Config {
	return func(scenario.Cell) scenario.Config {
		cfg := r.config(at)
		cfg.Timeout, cfg.Concurrency = r.flags.timeout, m.inHand
		right := cfg.Worker
		cfg.Worker = func(c notify.Channel) []string {
			if m.without.Name == "" {
				return right(c)
			}
			return append(right(c), "--break", m.without.Name)
		}
		cfg.Emit = func(event.Event) {} // the verdict has them all
		return cfg
	}
}

// end returns what the run comes to.
func (m *matrix) end(all []scenario.Result, v scenario.Verdict) error {
	unseen := m.without.Unseen(all)
	switch {
	case len(unseen) > 0:
		return statusError{exitBug, fmt.Sprintf("without %s came out as predicted: %s", m.without.Name, unseen[0])}
	case v.Status == scenario.NotHeld:
		return statusError{exitFinding, ""}
	case v.Status == scenario.Inconclusive:
		return statusError{exitInconclusive, ""}
	}
	return nil
}
