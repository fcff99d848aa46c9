package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"notifylab/internal/idem"
	"notifylab/internal/lab"
)

type eventFlags struct {
	follow bool
	since  string
	id     string
	limit  int
}

func (a *app) eventsCommand() *cobra.Command {
	var f eventFlags
	cmd := &cobra.Command{
		Use:     "events",
		GroupID: groupLook,
		Short:   "Show what all workers said, whichever pane or machine they run on",
		Long: `The journal: every worker of the namespace writes its events to one stream in Redis,
which keeps about the last 100,000. A crash's line is there before the crash. --since
is by the clock of the machine with Redis.`,
		Example: `  notifylab events
  notifylab events -f
  notifylab events --since 5m --id k7f3-1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			after, err := lab.ParseSince(f.since, time.Now())
			if err != nil {
				return usagef("--%w", err)
			}
			if f.limit < 1 {
				return usagef("--limit %d: at least 1", f.limit)
			}
			return a.withRedis(cmd.Context(), func(ctx context.Context, c idem.Client) error { return a.events(ctx, c, f, after) })
		},
	}
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on, and show what comes")
	cmd.Flags().StringVar(&f.since, "since", "", "from then on: 5m (ago), or a time such as 2026-01-31T12:00:00Z")
	cmd.Flags().StringVar(&f.id, "id", "", "of this notification only")
	cmd.Flags().IntVar(&f.limit, "limit", 1000, "the newest so many, if --since is not given")
	return cmd
}

// page is how many events are read at once.
const page = 1000

func (a *app) events(ctx context.Context, c idem.Client, f eventFlags, after string) error {
	ctx, cancel, done := a.signals(ctx)
	defer done()
	out := a.printer(cancel)
	show := func(entries []lab.Entry) {
		for _, e := range entries {
			after = e.Cursor
			if f.id == "" || e.ID == f.id {
				out.event(e.Event)
			}
		}
	}
	if err := a.past(ctx, c, f, &after, show); err != nil || !f.follow {
		return firstCause(ctx, err)
	}
	return a.follow(ctx, c, &after, show)
}

// past shows what is there: the newest, or all from a cursor on. What comes later
// comes after the cursor that it leaves.
func (a *app) past(ctx context.Context, c idem.Client, f eventFlags, after *string, show func([]lab.Entry)) error {
	if f.since == "" {
		end, err := lab.LatestJournal(ctx, c, a.ns(), 1)
		if err != nil {
			return err
		}
		entries, err := lab.LatestOf(ctx, c, a.ns(), f.id, f.limit)
		if err != nil {
			return err
		}
		show(entries)
		if len(entries) == 0 && len(end) > 0 {
			*after = end[0].Cursor // there was none of this notification up to there
		}
		return nil
	}
	for ctx.Err() == nil {
		entries, err := lab.ReadJournal(ctx, c, a.ns(), *after, page)
		if err != nil {
			return err
		}
		show(entries)
		if len(entries) < page {
			break
		}
	}
	return nil
}

// follow shows what comes until the command is told to stop. While Redis is away
// it says so once and tries again.
func (a *app) follow(ctx context.Context, c idem.Client, after *string, show func([]lab.Entry)) error {
	away := false
	for ctx.Err() == nil {
		entries, err := lab.AwaitJournal(ctx, c, a.ns(), *after, page)
		if err == nil {
			away = false
			show(entries)
			continue
		}
		if ctx.Err() == nil && !away {
			away = true
			fmt.Fprintf(a.stderr, "notifylab: %s; trying again\n", escape(err.Error()))
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	return stopped(context.Cause(ctx))
}
