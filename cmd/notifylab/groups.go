package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"notifylab/internal/api"
	"notifylab/internal/passes"
)

// endWait is how long a partition may take to show an entry before it counts as empty.
const endWait = 500 * time.Millisecond

func (a *app) groupsCommand() *cobra.Command {
	var watched bool
	cmd := &cobra.Command{
		Use:     "groups [GROUP…]",
		GroupID: groupLook,
		Short:   "Show the consumer groups of the log: who has which partition, and how far it is",
		Long: `The consumer groups of the log of expired passes, a partition each: the last offset
that is committed and the last that there is, what lies between (lag), which member has
the partition, and the group's generation, which grows whenever a member comes or goes.
Looking takes nothing out of the log, and nobody out of a group.`,
		Example: `  notifylab groups
  notifylab groups -w
  notifylab groups notify -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withDesk(cmd.Context(), "notifylab groups", func(ctx context.Context, desk api.Desk) error {
				load, end := a.watchedDesk(desk, func(ctx context.Context, desk api.Desk) (list, error) { return a.listGroups(ctx, desk, args) })
				defer end()
				return a.show(ctx, watched, load)
			})
		},
	}
	cmd.Flags().BoolVarP(&watched, "watch", "w", false, "go on, and show changes")
	return cmd
}

// A groupRow is a row of the list, as JSON has it.
type groupRow struct {
	Kind string `json:"kind"` // group
	passes.Row
}

func (a *app) listGroups(ctx context.Context, desk api.Desk, names []string) (list, error) {
	l := list{
		columns: []string{"group", "partition", "committed", "end", "lag", "owner", "generation"},
		empty:   "no groups: nobody has read the log", kind: "group", by: "partition",
	}
	rows, err := passes.Status(ctx, desk.Redis, desk.Broker, desk.Namespace, endWait, names...)
	for _, r := range rows {
		owner := "nobody"
		if r.Owner != "" {
			owner = escape(r.Owner)
		}
		name := escape(r.Group)
		l.rows = append(l.rows, row{
			key:   fmt.Sprintf("%s/%d", r.Group, r.Partition),
			cells: []string{name, strconv.Itoa(r.Partition), offset(r.Committed), offset(r.End), strconv.FormatInt(r.Lag, 10), owner, strconv.FormatInt(r.Generation, 10)},
			change: fmt.Sprintf("%s P%d  committed %s of %s, lag %d, owner %s, generation %d",
				name, r.Partition, offset(r.Committed), offset(r.End), r.Lag, owner, r.Generation),
			object: groupRow{"group", r},
		})
	}
	return l, err
}

// offset is an offset as people read it: before the first one there is none.
func offset(n int64) string {
	if n < 0 {
		return "none"
	}
	return strconv.FormatInt(n, 10)
}
