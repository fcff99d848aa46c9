package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"notifylab/internal/api"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/worker"
)

func (a *app) recordsCommand() *cobra.Command {
	var id, state string
	var watched bool
	cmd := &cobra.Command{
		Use:     "records",
		Aliases: []string{"keys"},
		GroupID: groupLook,
		Short:   "Show the idempotency records: who has what, and for how long",
		Long: `The records in Redis, notification:<id>:<channel>:<user>: claimed (for good), pending
(a lease) or done, the worker that wrote it, and how long it will be remembered. With
-w pending can be seen to become done. Looking uses SCAN, which holds nobody up.`,
		Example: `  notifylab records
  notifylab records --state pending -w
  notifylab records --id k7f3-1 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withRedis(cmd.Context(), func(ctx context.Context, c idem.Client) error {
				desk := api.Desk{Redis: c, Namespace: a.ns()}
				return a.show(ctx, watched, func(ctx context.Context) (list, error) { return a.listRecords(ctx, desk, id, state) })
			})
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "of this notification only")
	cmd.Flags().Var(newChoice(&state, "", "claimed", "pending", "done"), "state", "in this state only: claimed, pending or done")
	cmd.Flags().BoolVarP(&watched, "watch", "w", false, "go on, and show changes")
	return cmd
}

func (a *app) listRecords(ctx context.Context, desk api.Desk, id, state string) (list, error) {
	l := list{columns: []string{"key", "state", "worker", "for another"}, empty: "no records", kind: "record", by: "key"}
	all, err := desk.Records(ctx, id, state)
	for _, r := range all {
		ttl := time.Duration(r.TTLMS) * time.Millisecond
		l.rows = append(l.rows, row{
			key:    r.Key,
			state:  r.State + " " + r.Owner, // the passing of time is no change
			cells:  []string{escape(a.ns().Bare(r.Key)), r.State, worker.WorkerName(escape(r.Channel), r.Slot), remaining(ttl)},
			object: r,
		})
	}
	return l, err
}

func remaining(d time.Duration) string {
	if d == 0 {
		return "ever"
	}
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return event.Short(d.Truncate(time.Second))
}

func (a *app) queuesCommand() *cobra.Command {
	var watched bool
	cmd := &cobra.Command{
		Use:     "queues",
		GroupID: groupLook,
		Short:   "Show the queues: ready, in hand, consumers",
		Long: `The work, retry and dead-letter queues of the namespace that are there: messages that
wait to be handed over (ready), deliveries that live workers have in hand and have not
settled, consumers, and the type. Whoever declares a queue notes its name in Redis, so
all are found; RabbitMQ's management plugin is not needed.`,
		Example: `  notifylab queues
  notifylab queues -w`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withDesk(cmd.Context(), "notifylab queues", func(ctx context.Context, desk api.Desk) error {
				load, end := a.watchedDesk(desk, a.listQueues)
				defer end()
				return a.show(ctx, watched, load)
			})
		},
	}
	cmd.Flags().BoolVarP(&watched, "watch", "w", false, "go on, and show changes")
	return cmd
}

// withDesk runs do with both servers at hand.
func (a *app) withDesk(ctx context.Context, who string, do func(context.Context, api.Desk) error) error {
	return a.withRedis(ctx, func(ctx context.Context, c idem.Client) error {
		conn, err := a.dialBroker(ctx, who, 5*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		return do(ctx, api.Desk{Redis: c, Broker: conn, Namespace: a.ns(), Who: who})
	})
}

// watchedDesk returns what lists something again and again, connecting anew when the
// broker was away, and what ends that.
func (a *app) watchedDesk(desk api.Desk, look func(context.Context, api.Desk) (list, error)) (load func(context.Context) (list, error), end func()) {
	first := desk.Broker // whoever has opened it closes it
	drop := func() {
		if desk.Broker != first {
			desk.Broker.Close()
		}
	}
	return func(ctx context.Context) (list, error) {
		if desk.Broker.Closed() {
			conn, err := a.dialBroker(ctx, desk.Who, 5*time.Second)
			if err != nil {
				return list{}, err
			}
			drop()
			desk.Broker = conn
		}
		return look(ctx, desk)
	}, drop
}

func (a *app) listQueues(ctx context.Context, desk api.Desk) (list, error) {
	l := list{
		columns: []string{"queue", "ready", "in hand", "consumers", "type", ""}, empty: "no queues: nobody has declared any",
		kind: "queue", by: "queue",
	}
	all, err := desk.Queues(ctx)
	for _, q := range all {
		name, hint := escape(a.ns().Bare(q.Queue)), ""
		if q.DeadLettersOf != "" && q.Ready > 0 {
			hint = "notifylab dlq list " + string(q.DeadLettersOf)
		}
		l.rows = append(l.rows, row{
			key:    q.Queue,
			cells:  []string{name, strconv.Itoa(q.Ready), strconv.Itoa(q.InHand), strconv.Itoa(q.Consumers), escape(q.Type), hint},
			change: fmt.Sprintf("%s  %d ready, %d in hand, %s, %s  %s", name, q.Ready, q.InHand, count(q.Consumers, "consumer"), escape(q.Type), hint),
			object: q,
		})
	}
	return l, err
}

func (a *app) resetCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:     "reset",
		GroupID: groupLook,
		Short:   "Delete the namespace's queues, records, settings and journal",
		Long: `Deletes what the lab has made in this namespace: queues with all they hold, records,
settings, crash marks, the journal. Without --namespace that is what the lab has made
without one: notify.push, notification:…, lab:… Other namespaces and other programs'
queues and keys stay.`,
		Example: "  notifylab reset --yes",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			whose := "without a namespace"
			if a.namespace != "" {
				whose = "in namespace " + a.namespace
			}
			if err := a.confirm(yes, "delete all of the lab's queues and keys "+whose+", "+a.where()+"?"); err != nil {
				return err
			}
			return a.withDesk(cmd.Context(), "notifylab reset", func(ctx context.Context, desk api.Desk) error {
				r, err := desk.Reset(ctx)
				out := a.printer(func(error) {})
				if out.json {
					out.object(r)
				} else {
					out.linef("%d queues and %d keys deleted", r.Queues, r.Keys)
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}
