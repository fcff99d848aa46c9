package main

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"notifylab/internal/broker"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
	"notifylab/internal/passes"
)

// reactionFlags are the flags of one consumer of expired passes.
type reactionFlags struct {
	partFlags
	do           []string
	name, queue  string
	ack, records string
	prefetch     int
	single       bool
	backoff      time.Duration
}

func (a *app) reactionCommand() *cobra.Command {
	var f reactionFlags
	cmd := &cobra.Command{
		Use:     "reaction REACTION…",
		GroupID: groupPasses,
		Short:   "Run one consumer of expired passes, on a queue of its own",
		Long: `One process that takes events of expired passes from a queue and does one thing about
each, or several, in that order: notify (a push), email, delete-pass. Its queue is named
after the first, passes.notify, and gets a copy of all that is announced from then on;
--queue has it take them from another one. SIGTERM or Ctrl-C: it finishes what is in
hand.`,
		Example: `  notifylab reaction notify
  notifylab reaction delete-pass --queue shared
  notifylab reaction delete-pass notify --records claimed`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("which reaction? There are %s", strings.Join(reactions(), ", "))
			}
			return checkReactions("reaction", args...)
		},
		ValidArgsFunction: completeReactions,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.do = args
			if f.prefetch < 1 || f.prefetch > 65535 {
				return usagef("--prefetch %d: from 1 to 65535", f.prefetch)
			}
			if err := f.check(); err != nil {
				return err
			}
			return a.runPart(cmd.Context(), f.partFlags, func(ctx context.Context, p *part) error { return p.react(ctx, f) })
		},
	}
	f.partFlags.register(cmd.Flags())
	set := cmd.Flags()
	set.StringVar(&f.name, "name", "", "what to call it; default: the reaction")
	set.StringVar(&f.queue, "queue", "", "the queue to take events from, without passes. in front; default: one of its own")
	set.Var(newChoice(&f.ack, "late", "late", "read", "auto"), "ack", "late: when all is done; read: before anything is; auto: the broker takes it for acked when it is written")
	set.Var(newChoice(&f.records, "none", "none", "claimed", "lease"), "records", "what remembers who was told: none, a record that is claimed for good, or one with a lease")
	set.IntVar(&f.prefetch, "prefetch", 1, "events that may be here and unsettled")
	set.BoolVar(&f.single, "single", false, "a single active consumer: others on that queue wait until it has gone")
	set.DurationVar(&f.backoff, "backoff", retryWait, "wait before an event is given back that could not be handled")
	return cmd
}

func (p *part) react(ctx context.Context, f reactionFlags) error {
	sub := broker.Subscription{Queue: p.ns().Queue("passes." + cmp.Or(f.queue, f.do[0])), Exchange: p.exchange(), Single: f.single, Expires: f.queueExpires}
	name := cmp.Or(f.name, f.do[0])
	cfg := passes.ReactionConfig{
		Name: name, Queue: sub.Queue, Prefetch: f.prefetch, Ack: passes.AckMode(f.ack), Effects: p.effects(f.do...),
		Open: p.dial("reaction "+name, string(broker.Quorum), []string{sub.Queue}, func(ctx context.Context, c *broker.Conn) error {
			return c.Subscribe(ctx, sub)
		}),
		Emit: p.emit, Backoff: f.backoff, CrashPoints: true, Die: p.die, Marks: p.marks,
	}
	if f.records != "none" {
		slot, err := idem.TakeSlot(p.state(), p.ns(), notify.Channel("reaction"))
		if err != nil {
			return hinted{unavailableError{err}, []string{"another place   --state-dir DIRECTORY"}}
		}
		defer slot.Free()
		const lease, retention = 10 * time.Second, 24 * time.Hour // a worker's
		cfg.Records, cfg.Retention, cfg.Leased = idem.NewStore(p.redis, p.ns(), slot, lease, retention), retention, f.records == "lease"
	}
	if err := passes.NewReaction(cfg).Run(ctx); err != nil {
		return unavailableError{err}
	}
	return nil
}
