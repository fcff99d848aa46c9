package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"notifylab/internal/broker"
	"notifylab/internal/passes"
)

// readerFlags are the flags of one member of a consumer group.
type readerFlags struct {
	partFlags
	group       string
	do          []string
	partitions  int
	ttl, beat   time.Duration
	commitFirst bool
}

func (a *app) readerCommand() *cobra.Command {
	var f readerFlags
	cmd := &cobra.Command{
		Use:     "reader NAME",
		GroupID: groupPasses,
		Short:   "Run one member of a consumer group of the log of expired passes",
		Long: `One process that reads its share of the log: the partitions passes.0, passes.1 … are
shared out among the members of a group. It reads a record, does what the reaction has
to do, and commits the group's cursor behind it. SIGTERM or Ctrl-C: it finishes what is
in hand and leaves, so that others have its partitions at once.`,
		Example: "  notifylab reader c1 --group notify",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || strings.ContainsAny(args[0], ": ") || args[0] == "" {
				return usagef("which name? One for each member of a group, without blanks and colons: c1")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return a.runPart(cmd.Context(), f.partFlags, func(ctx context.Context, p *part) error { return p.read(ctx, args[0], f) })
		},
	}
	f.partFlags.register(cmd.Flags())
	set := cmd.Flags()
	set.StringVar(&f.group, "group", reactNotify, "the group whose share it reads")
	set.StringSliceVar(&f.do, "do", nil, "what to do with a record: notify, email, delete-pass; default: what the group is called")
	set.IntVar(&f.partitions, "partitions", 4, "how many partitions the log has; all must be told the same")
	set.DurationVar(&f.ttl, "ttl", 3*time.Second, "a member that was silent for that long counts as dead")
	set.DurationVar(&f.beat, "beat", 500*time.Millisecond, "how often it is heard")
	set.BoolVar(&f.commitFirst, "commit-first", false, "commit before the handling: at most once")
	return cmd
}

func (f *readerFlags) check() error {
	if len(f.do) == 0 {
		f.do = []string{f.group}
	}
	switch {
	case f.group == "" || strings.ContainsAny(f.group, ": "):
		return usagef("--group %q: a name without blanks and colons", f.group)
	case f.partitions < 1 || f.partitions > 64:
		return usagef("--partitions %d: from 1 to 64", f.partitions)
	case f.ttl < 2*f.beat:
		return usagef("--ttl %v: at least twice --beat %v", f.ttl, f.beat)
	}
	if err := checkReactions("--do", f.do...); err != nil {
		return err
	}
	if err := moreThanZero("ttl", f.ttl, "beat", f.beat); err != nil {
		return err
	}
	return f.partFlags.check()
}

// retryWait is how long a member waits before it tries again what failed.
const retryWait = 50 * time.Millisecond

func (p *part) read(ctx context.Context, name string, f readerFlags) error {
	log := passes.Log{Namespace: p.ns(), Partitions: f.partitions}
	say := p.say(name)
	m := passes.NewMember(passes.Config{
		Log: log, Group: passes.NewGroup(p.redis, log, f.group, f.keyExpires), Name: name,
		Open: p.dial("reader "+name, "stream", log.Queues(), func(ctx context.Context, c *broker.Conn) error {
			return c.DeclareStreams(ctx, log.Streams()...)
		}),
		Handle: passes.Handler(p.effects(f.do...), f.group, say), Emit: p.emit,
		CommitFirst: f.commitFirst, TTL: f.ttl, Beat: f.beat, Prefetch: 10, Backoff: retryWait,
		CrashPoints: true, Die: p.die, Suspend: p.suspend, Marks: p.marks,
	})
	if err := m.Run(ctx); err != nil {
		return unavailableError{err}
	}
	return nil
}
