package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"notifylab/internal/api"
	"notifylab/internal/broker"
	"notifylab/internal/notify"
)

func registerFilter(f *api.Filter, set *pflag.FlagSet) {
	set.StringVar(&f.ID, "id", "", "of this notification only")
	set.StringVar(&f.User, "user", "", "for this user only")
	set.StringVar(&f.Reason, "reason", "", "for this reason only: refused, unknown, malformed, conflict, crashed, or the broker's, such as delivery_limit")
}

// checkFilter refuses an empty word, which would stand for all of them: $ID is unset.
func checkFilter(set *pflag.FlagSet) error {
	for _, name := range []string{"id", "user", "reason"} {
		if set.Changed(name) && set.Lookup(name).Value.String() == "" {
			return usagef("--%s is empty", name)
		}
	}
	return nil
}

func (a *app) dlqCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "dlq",
		GroupID: groupLook,
		Short:   "Look at the dead letters, replay or purge them",
		Long: `The messages that were parked: refused for good or too often, malformed, a conflict,
or what killed its worker again and again. To look changes nothing: order, number and
bytes stay. Looks, replays and purges of a channel take turns.`,
		Example: "  notifylab dlq list push\n  notifylab dlq replay push --all",
		Args:    noSuchCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.dlqListCommand(), a.dlqShowCommand(), a.dlqReplayCommand(), a.dlqPurgeCommand())
	return cmd
}

func (a *app) dlqListCommand() *cobra.Command {
	var f api.Filter
	var watched bool
	var limit int
	cmd := &cobra.Command{
		Use:     "list CHANNEL",
		Short:   "List the dead letters of a channel",
		Example: "  notifylab dlq list push\n  notifylab dlq list push --reason refused -o json",
		Args:    channelArg, ValidArgsFunction: completeChannels,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return usagef("--limit %d: at least 1", limit)
			}
			return a.withDesk(cmd.Context(), "notifylab dlq list", func(ctx context.Context, desk api.Desk) error {
				var last list
				return a.show(ctx, watched, func(ctx context.Context) (list, error) {
					l, err := listLetters(ctx, desk, notify.Channel(args[0]), f, limit)
					var turn *api.TurnError
					if watched && errors.As(err, &turn) {
						return last, nil // whoever watches goes on when it is his turn again
					}
					last = l
					return l, err
				})
			})
		},
	}
	registerFilter(&f, cmd.Flags())
	cmd.Flags().IntVar(&limit, "limit", 1000, "show so many, and say how many there are")
	cmd.Flags().BoolVarP(&watched, "watch", "w", false, "go on, and show changes")
	return cmd
}

func listLetters(ctx context.Context, desk api.Desk, c notify.Channel, f api.Filter, limit int) (list, error) {
	l := list{columns: []string{"notification", "user", "reason", "attempts", "last error", "when", "worker"}, empty: "no dead letters"}
	letters, all, err := desk.Letters(ctx, c, f, limit)
	if err != nil {
		return l, deskError(err)
	}
	alike := map[string]int{}
	for _, d := range letters {
		reason := d.Reason
		if d.ByBroker {
			reason += " (the broker)"
		}
		key := d.ID + " " + d.Time // not its place: that changes when another leaves
		alike[key]++
		l.rows = append(l.rows, row{
			key:    fmt.Sprintf("%s %d", key, alike[key]),
			cells:  []string{escape(d.ID), escape(d.User), escape(reason), fmt.Sprint(d.Attempts), escape(cutText(d.Last, 60)), when(d.At), escape(d.Worker)},
			object: d,
		})
	}
	if all > limit {
		l.rows = append(l.rows, row{key: "more", cells: []string{fmt.Sprintf("showing %d of %d", limit, all)},
			object: map[string]any{"kind": "more", "shown": limit, "all": all}})
	}
	return l, nil
}

// deskError says how a command at the dead letters ends: with what the broker would
// not take it was done in part; else it was the surroundings.
func deskError(err error) error {
	var refused *broker.ReplayError
	var known statusError
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &refused) && (refused.Fate == broker.Returned || refused.Fate == broker.Nacked):
		return statusError{exitFinding, err.Error()}
	}
	return unavailableError{err}
}

func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

func cutText(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

func (a *app) dlqShowCommand() *cobra.Command {
	var f api.Filter
	cmd := &cobra.Command{
		Use:     "show CHANNEL",
		Short:   "Show dead letters whole, with their bodies and histories",
		Example: "  notifylab dlq show push",
		Args:    channelArg, ValidArgsFunction: completeChannels,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withDesk(cmd.Context(), "notifylab dlq show", func(ctx context.Context, desk api.Desk) error {
				out := a.printer(func(error) {})
				letters, _, err := desk.Letters(ctx, notify.Channel(args[0]), f, 1<<31)
				for _, l := range letters {
					showLetter(out, l)
				}
				switch {
				case err != nil || len(letters) > 0:
					return deskError(err)
				case f != (api.Filter{}):
					return statusError{exitFinding, "no such dead letter"}
				case !out.json:
					out.linef("no dead letters")
				}
				return nil
			})
		},
	}
	registerFilter(&f, cmd.Flags())
	return cmd
}

func showLetter(out *printer, l api.Letter) {
	if out.json {
		out.object(l)
		return
	}
	by := l.Worker
	if l.ByBroker {
		by = "the broker, by itself"
	}
	out.linef("notification  %s", escape(l.ID))
	out.linef("user          %s", escape(l.User))
	out.linef("reason        %s, after %d attempts", escape(l.Reason), l.Attempts)
	out.linef("first error   %s", escape(l.First))
	out.linef("last error    %s", escape(l.Last))
	out.linef("parked        %s by %s", when(l.At), escape(by))
	out.linef("body          %s", escape(l.Body))
	for _, h := range l.History {
		out.linef("history       %s", escape(h))
	}
	out.linef("")
}

func (a *app) dlqReplayCommand() *cobra.Command {
	var o api.ReplayOptions
	var all bool
	cmd := &cobra.Command{
		Use:   "replay CHANNEL",
		Short: "Put dead letters back into the work queue, with fresh attempts",
		Long: `Takes those that are there now, oldest first, and no more. Each is published and
confirmed before it leaves the dead letters, so a kill leaves it in both and never in
none. The record is read first: done means that it was sent after all, so it is not
published and stays; claimed means that nobody knows, and it stays unless --force.
With an --id that is not there it ends with 1.

The last line counts them. Lost would be what is neither in the work queue nor among
the dead letters any more; since each is confirmed first, it is 0.`,
		Example: "  notifylab dlq replay push --all --dry-run\n  notifylab dlq replay push --id k7f3-1\n  notifylab dlq replay push --all",
		Args:    channelArg, ValidArgsFunction: completeChannels,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFilter(cmd.Flags()); err != nil {
				return err
			}
			if !all && o.Filter == (api.Filter{}) {
				return usagef("replay which? --id ID, --user USER, --reason REASON, or --all")
			}
			if all && o.Filter != (api.Filter{}) {
				return usagef("--all, or only those of --id, --user or --reason: not both")
			}
			return a.replay(cmd.Context(), notify.Channel(args[0]), o)
		},
	}
	registerFilter(&o.Filter, cmd.Flags())
	cmd.Flags().BoolVar(&all, "all", false, "all that are there")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "say what would be done, and do nothing")
	cmd.Flags().BoolVar(&o.Force, "force", false, "replay also what is claimed: it may have been sent")
	return cmd
}

func (a *app) replay(ctx context.Context, c notify.Channel, o api.ReplayOptions) error {
	ctx, cancel, done := a.signals(ctx)
	defer done()
	out := a.printer(cancel)
	o.Tell = func(l api.Letter, what string) {
		if out.json {
			out.object(map[string]any{"kind": "replay", "id": l.ID, "channel": string(c), "user": l.User, "what": what})
			return
		}
		out.linef("%s notif:%s for user:%s: %s", c, escape(l.ID), escape(l.User), what)
	}
	var sum api.Replay
	err := a.withDesk(ctx, "notifylab dlq replay", func(ctx context.Context, desk api.Desk) (err error) {
		desk.Dial = func(ctx context.Context) (*broker.Conn, error) {
			return broker.Dial(ctx, a.broker("dlq replay", 10*time.Second, 5*time.Second))
		}
		sum, err = desk.Replay(ctx, c, o)
		return err
	})
	if sum.Kind == "" { // it was never its turn
		return firstCause(ctx, deskError(err))
	}
	if out.json {
		out.object(sum)
	} else {
		out.linef("%s", replayText(sum))
	}
	switch {
	case err != nil:
	case sum.Unknown > 0:
		return statusError{exitFinding, ""}
	case o.ID != "" && sum.Replayed+sum.Already+sum.Lost == 0:
		return statusError{exitFinding, "no such dead letter"}
	}
	return firstCause(ctx, deskError(err))
}

func replayText(sum api.Replay) string {
	text := fmt.Sprintf("%d replayed, %d already sent, %d lost", sum.Replayed, sum.Already, sum.Lost)
	if sum.Unknown > 0 {
		text += fmt.Sprintf(", %d unknown (claimed; --force replays them)", sum.Unknown)
	}
	if sum.DryRun {
		text += "; nothing was done"
	}
	return text
}

func (a *app) dlqPurgeCommand() *cobra.Command {
	var f api.Filter
	var yes bool
	cmd := &cobra.Command{
		Use:     "purge CHANNEL",
		Short:   "Delete dead letters for good",
		Long:    "Deletes those that are there now. With an --id that is not there it ends with 1.",
		Example: "  notifylab dlq purge push --id k7f3-1 --yes",
		Args:    channelArg, ValidArgsFunction: completeChannels,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFilter(cmd.Flags()); err != nil {
				return err
			}
			if err := a.confirm(yes, "delete the dead letters of "+args[0]+" for good?"); err != nil {
				return err
			}
			return a.purge(cmd.Context(), notify.Channel(args[0]), f)
		},
	}
	registerFilter(&f, cmd.Flags())
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func (a *app) purge(ctx context.Context, c notify.Channel, f api.Filter) error {
	ctx, cancel, done := a.signals(ctx)
	defer done()
	out := a.printer(cancel)
	n := 0
	err := a.withDesk(ctx, "notifylab dlq purge", func(ctx context.Context, desk api.Desk) (err error) {
		n, err = desk.Purge(ctx, c, f)
		return err
	})
	switch {
	case err != nil && n == 0: // nothing was done
	case out.json:
		out.object(map[string]any{"kind": "purged", "channel": string(c), "purged": n})
	default:
		out.linef("%d purged", n)
	}
	if err == nil && n == 0 && f.ID != "" {
		return statusError{exitFinding, "no such dead letter"}
	}
	return firstCause(ctx, deskError(err))
}

// confirm asks before something that can't be undone. Without a terminal to ask on
// it wants --yes.
func (a *app) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(os.Stdin) {
		return usagef("%s Say so with --yes, since there is no terminal to ask on", question)
	}
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	var answer string
	if _, err := fmt.Scanln(&answer); err != nil && !errors.Is(err, os.ErrClosed) && answer == "" {
		return statusError{exitFinding, "nothing was done"}
	}
	if !strings.HasPrefix(strings.ToLower(answer), "y") {
		return statusError{exitFinding, "nothing was done"}
	}
	return nil
}
