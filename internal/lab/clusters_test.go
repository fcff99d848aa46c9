package lab

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/servers"
	"notifylab/internal/servers/serverstest"
)

// On a Cluster the keys live apart, and nothing here minds: each command and script
// keeps to one.
func TestLab_on_clusters(t *testing.T) {
	pair := serverstest.Clusters(t, servers.Options{RedisCluster: true})
	o, err := redis.ParseClusterURL(pair.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClusterClient(o)
	t.Cleanup(func() { _ = c.Close() })
	ctx, ns := soon(t), notify.Namespace(serverstest.Namespace(t))
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}

	settings := NewSettings(c, ns)
	ok(settings.Seed(ctx, map[string]bool{"idempotency": true}))
	ok(settings.Set(ctx, map[string]bool{"claim-lease": true, "provider-key": false}))
	if got, err := settings.Get(ctx); got != (event.Settings{Idempotency: true, ClaimLease: true}) || err != nil {
		t.Errorf("settings: %+v, %v", got, err)
	}
	ok(settings.Reset(ctx))

	j := NewJournal(c, ns, 0)
	for _, id := range []string{"a", "b", "c"} {
		j.Add(event.Event{Kind: event.Sent, ID: id})
	}
	ok(j.Flush(ctx))
	ok(j.Close(ctx))
	first, err := ReadJournal(ctx, c, ns, "", 1)
	ok(err)
	rest, err := AwaitJournal(ctx, c, ns, first[0].Cursor, 10)
	ok(err)
	if last, err := LatestJournal(ctx, c, ns, 2); len(rest) != 2 || len(last) != 2 || err != nil {
		t.Errorf("journal: %v, then %v, %v", rest, last, err)
	}

	if a, b := c.ClusterKeySlot(ctx, journalKey(ns)).Val(), c.ClusterKeySlot(ctx, journalMarks(ns)).Val(); a != b || a == 0 {
		t.Errorf("the journal is in slot %d, its marks in %d", a, b)
	}

	marks := NewMarks(c, ns)
	for _, want := range []bool{true, false} {
		if got, err := marks.First(ctx, "n", "push", "after-claim"); got != want || err != nil {
			t.Errorf("mark: %v, %v, want %v", got, err, want)
		}
	}

	requests := NewRequests(c, ns)
	mine, err := requests.Begin(ctx, "k", "body", "id")
	ok(err)
	busy, err := requests.Begin(ctx, "k", "body", "other")
	ok(err)
	ok(requests.End(ctx, "k", mine, true))
	done, err := requests.Begin(ctx, "k", "body", "other")
	ok(err)
	states := []RequestState{mine.State, busy.State, done.State}
	if want := []RequestState{RequestMine, RequestBusy, RequestDone}; !slices.Equal(states, want) || done.ID != "id" {
		t.Errorf("request: %v of %s, want %v", states, done.ID, want)
	}
	ok(requests.Queued(ctx, notify.Notification{ID: "id"}, notify.Channels()))
	if where, err := requests.WhereQueued(ctx, "id"); len(where) != len(notify.Channels()) || err != nil {
		t.Errorf("queued on %v, %v", where, err)
	}

	notes := NewNotes(c, ns, 0)
	ok(notes.Declared(ctx, "quorum", "q1", "q2"))
	ok(notes.Alive(ctx, WorkerNote{Name: "push-worker-1", Owner: "b/1:2/1/l"}))
	ok(notes.Alive(ctx, WorkerNote{Name: "push-worker-2", Owner: "b/1:2/2/l"}))
	queues, err := notes.Queues(ctx)
	ok(err)
	workers, err := notes.Workers(ctx)
	ok(err)
	if len(queues) != 2 || len(workers) != 2 {
		t.Errorf("noted %v and %v", queues, workers)
	}
	ok(notes.Turn(ctx, "push", "me"))
	if who := notes.WhoseTurn(ctx, "push"); who != "me" {
		t.Errorf("the turn is %q", who)
	}
	ok(notes.TurnOver(context.WithoutCancel(ctx), "push"))

	// It would show nothing if all lay on one node.
	var nodes atomic.Int32
	ok(c.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		n, err := master.DBSize(ctx).Result()
		if n > 0 {
			nodes.Add(1)
		}
		return err
	}))
	if nodes.Load() < 2 {
		t.Errorf("all keys are on %d node", nodes.Load())
	}
}
