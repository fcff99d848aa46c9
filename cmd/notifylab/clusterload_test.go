package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
	"notifylab/internal/servers"
	"notifylab/internal/servers/serverstest"
)

// A load is a producer, two workers with a lease under a supervisor, and a provider
// that keeps the ledger.
type load struct {
	corner
	provider  *provider.Server
	url       string
	crew      *running
	producers []*running // the last is at it
}

// perS is how many notifications a second there are: a third of what two workers of 16
// handlers can send.
const perS = 500

func newLoad(c corner) *load {
	c.t.Helper()
	// A send takes a while, so that a kill hits some.
	slow := provider.Faults{Delay: []provider.Delay{{For: 20 * time.Millisecond}}}
	l := &load{corner: c, provider: provider.New(provider.Options{Faults: slow})}
	listening, err := l.provider.Listen("")
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = listening.Close(context.Background()) })
	l.url = listening.URL()
	l.supervise()
	l.produce()
	l.awaitAccepted(3 * perS)
	return l
}

func (l *load) supervise() {
	l.t.Helper()
	l.crew = l.start("supervise", "push=2", "-o", "json", "--", "--provider-url", l.url, "--idempotency", "on", "--claim-lease", "on",
		"--prefetch", "32", "--concurrency", "16", "--events", "summary", "--journal", "off")
	l.crew.awaitLines(2, `"ready"`)
}

// produce goes on with the production: one that loses its connection ends.
func (l *load) produce() {
	l.t.Helper()
	id := fmt.Sprintf("%s-%d", l.ns, len(l.producers))
	l.producers = append(l.producers, l.start("produce", "--channel", "push", "--id", id, "--count", "1000000", "--rate", fmt.Sprintf("%d/s", perS), "-o", "json"))
}

// awaitAccepted waits until so many more were accepted, while something is produced.
func (l *load) awaitAccepted(more int) {
	l.t.Helper()
	want := l.provider.Count(event.Accepted) + more
	for ctx := patience(l.t); ; {
		last := l.producers[len(l.producers)-1]
		waiting, enough := context.WithCancel(ctx)
		go func() {
			defer enough()
			for !stuck(last) {
				select {
				case <-last.next():
				case <-last.ended:
					return
				case <-waiting.Done():
					return
				}
			}
		}()
		err := l.provider.Await(waiting, func(ledger *provider.Ledger) bool { return ledger.Count(event.Accepted) >= want })
		enough()
		switch {
		case err == nil:
			return
		case ctx.Err() != nil:
			l.t.Fatalf("%d accepted, want %d\n%s\n%s", l.provider.Count(event.Accepted), want, strings.Join(lastOf(last.lines(), 5), "\n"), strings.Join(lastOf(l.crew.lines(), 20), "\n"))
		}
		if !last.over() {
			last.signal(syscall.SIGTERM)
		}
		last.wait()
		l.produce()
	}
}

// stuck says that a producer is only refused. A channel of RabbitMQ 3.10 that first
// publishes to a quorum queue while nobody has taken over from its dead leader goes
// on to ask that one, and refuses, until it comes back; a new channel asks another.
func stuck(producer *running) bool {
	lines := lastOf(producer.lines(), perS/2)
	return len(lines) == perS/2 && len(having(lines, "refused by the broker")) == len(lines)
}

func lastOf(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }

// An aftermath is what a load came to.
type aftermath struct {
	confirmed   int
	unconfirmed int
	lost        []string // confirmed, never accepted
	twice       []string // accepted again
	pause       time.Duration
}

func (e aftermath) String() string {
	return fmt.Sprintf("%d confirmed, %d unconfirmed, %d lost, %d twice %q, longest pause %v",
		e.confirmed, e.unconfirmed, len(e.lost), len(e.twice), e.twice, e.pause.Round(time.Millisecond))
}

// end ends the production, waits until all that was confirmed is accepted and no
// message is left, and stops the workers.
func (l *load) end() aftermath {
	l.t.Helper()
	last := l.producers[len(l.producers)-1]
	last.signal(syscall.SIGTERM)
	last.wait()
	var e aftermath
	var confirmed []string
	for _, r := range l.producers {
		for _, line := range r.lines() {
			switch fact, _ := event.Decode([]byte(line)); fact.Kind { // the last line is no event
			case event.Queued:
				confirmed = append(confirmed, fact.ID)
			case event.Unconfirmed:
				e.unconfirmed++
			}
		}
	}
	e.confirmed = len(confirmed)
	missing := func(ledger *provider.Ledger) (ids []string) {
		for _, id := range confirmed {
			if ledger.Accepted(id, notify.Push) == 0 {
				ids = append(ids, id)
			}
		}
		return ids
	}
	// Slow is not lost: for as long as something is left.
	work := l.names().Work(notify.Push)
	ctx, cancel := context.WithTimeout(l.t.Context(), 4*limit)
	defer cancel()
	for (l.ready(work) != 0 || len(missing(l.provider.Ledger)) > 0) && ctx.Err() == nil {
		<-time.After(20 * time.Millisecond) // the broker tells of no such event
	}
	l.crew.stop()
	e.lost = missing(l.provider.Ledger)
	if n := l.ready(work); n != 0 && len(e.lost) > 0 {
		l.t.Fatalf("%d messages are left", n)
	}
	var before time.Time
	for _, call := range l.provider.Calls() {
		if call.Kind == event.AcceptedAgain {
			e.twice = append(e.twice, call.ID)
		}
		if !before.IsZero() {
			e.pause = max(e.pause, call.Time.Sub(before))
		}
		before = call.Time
	}
	return e
}

// leader returns the node that leads the queue of push.
func leader(t *testing.T, pair *servers.Pair, queue string) servers.Server {
	t.Helper()
	text, err := pair.Rabbitmqctl(patience(t), "list_queues", "name", "leader")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 2 || f[0] != queue {
			continue
		}
		for _, m := range pair.Info().Members {
			if m.Node == f[1] {
				return m.Server
			}
		}
	}
	t.Fatalf("nobody leads %s:\n%s", queue, text)
	return ""
}

// Under load the node that leads the queue is killed. What was confirmed is on two
// others, and a lease outlives the session: nothing is lost, nothing sent twice.
func TestClusters_RabbitMQ_leader_is_killed(t *testing.T) {
	pair := serverstest.Clusters(t, servers.Options{RabbitNodes: 3})
	for _, clients := range []string{"with its clients", "and its clients are on another"} {
		t.Run(clients, func(t *testing.T) {
			c := cornerAt(t, pair.AMQPURL, pair.RedisURL)
			c.run("produce", "--channel", "push").wantStatus(0) // it makes the queue, at the first node
			led := leader(t, pair, c.names().Work(notify.Push))
			urls := strings.Split(pair.AMQPURL, ",")
			if at := slices.IndexFunc(pair.Info().Members, func(m servers.Member) bool { return m.Server == led }); (at == 0) != (clients == "with its clients") {
				slices.Reverse(urls)
			}
			c.amqp = strings.Join(urls, ",")
			l := newLoad(c)
			do(t, "kill", pair.Kill(t.Context(), led))
			defer startAgain(t, pair, led)
			l.awaitAccepted(3 * perS)
			e := l.end()
			t.Logf("%s, %s killed: %v, %d producers", clients, led, e, len(l.producers))
			if len(e.lost)+len(e.twice) > 0 {
				t.Errorf("lost %q, twice %q", e.lost, e.twice)
			}
		})
	}
}

// A shard is a master, its replica, and the slots that are theirs.
type shard struct {
	master, replica servers.Member
	from, to        int64
}

// shardOf returns the one that has the key, as soon as it has a replica.
func shardOf(t *testing.T, pair *servers.Pair, client idem.Client, key string) (found shard) {
	t.Helper()
	slot := slotOf(t, client, key)
	eventually(t, "a shard with a replica", func() string {
		ranges, err := client.ClusterSlots(patience(t)).Result()
		if err != nil {
			return err.Error()
		}
		for _, r := range ranges {
			if slot < int64(r.Start) || int64(r.End) < slot || len(r.Nodes) != 2 {
				continue
			}
			found = shard{from: int64(r.Start), to: int64(r.End)}
			for _, m := range pair.Info().Members {
				switch port := fmt.Sprint(":", m.Port); {
				case strings.HasSuffix(r.Nodes[0].Addr, port):
					found.master = m
				case strings.HasSuffix(r.Nodes[1].Addr, port):
					found.replica = m
				}
			}
		}
		if found.master.Port == 0 || found.replica.Port == 0 {
			return fmt.Sprintf("nobody has slot %d of %s: %v", slot, key, ranges)
		}
		return ""
	})
	return found
}

func slotOf(t *testing.T, client idem.Client, key string) int64 {
	t.Helper()
	slot, err := client.ClusterKeySlot(patience(t), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

// has says whether the record of what was sent is one of the shard's.
func (s shard) has(t *testing.T, client idem.Client, ns string, call provider.Call) bool {
	t.Helper()
	n := notify.Notification{ID: call.ID, User: call.User}
	slot := slotOf(t, client, notify.Namespace(ns).Key(notify.Key(n, notify.Push)))
	return s.from <= slot && slot <= s.to
}

// behind has a replica stand still without its link to the master, which goes on: what
// that takes in from now on is not passed on.
func behind(t *testing.T, pair *servers.Pair, s shard) {
	t.Helper()
	do(t, "suspend", pair.Suspend(t.Context(), s.replica.Server))
	client, err := idem.Dial(fmt.Sprintf("redis://127.0.0.1:%d", s.master.Port), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if n, err := client.ClientKillByFilter(patience(t), "TYPE", "replica").Result(); n != 1 || err != nil {
		t.Fatalf("%d links cut, %v", n, err)
	}
}

// Under load a master is killed. Its replica takes over: workers that live wait, and
// go on. Those that die with it can meet records that were not passed on, and then
// send again, as when they die between the acceptance and done; nothing else is sent
// twice, and nothing is lost.
func TestClusters_Redis_master_is_killed(t *testing.T) {
	pair := serverstest.Clusters(t, servers.Options{RedisCluster: true})
	client, err := idem.Dial(pair.RedisURL, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	t.Run("and the workers live", func(t *testing.T) {
		l := newLoad(cornerAt(t, pair.AMQPURL, pair.RedisURL))
		do(t, "kill", pair.Kill(t.Context(), servers.Redis))
		l.awaitAccepted(3 * perS)
		e := l.end()
		t.Logf("%s killed: %v", servers.Redis, e)
		if len(e.lost)+len(e.twice) > 0 {
			t.Errorf("lost %q, twice %q", e.lost, e.twice)
		}
		startAgain(t, pair, servers.Redis)
	})
	t.Run("and the workers with it", func(t *testing.T) {
		l := newLoad(cornerAt(t, pair.AMQPURL, pair.RedisURL))
		dead := shardOf(t, pair, client, l.ns)
		since := time.Now()
		behind(t, pair, dead)
		l.awaitAccepted(100)
		died := make(chan error, 1)
		go func() { died <- pair.Kill(t.Context(), dead.master.Server) }()
		for _, e := range l.crew.events() {
			if e.Kind == event.Ready {
				_ = syscall.Kill(e.PID, syscall.SIGKILL)
			}
		}
		l.crew.signal(syscall.SIGKILL)
		do(t, "kill", <-died)
		l.crew.wait()
		l.awaitNobody()
		do(t, "resume", pair.Resume(t.Context(), dead.replica.Server))
		accepted := l.provider.Calls()
		kept := l.records(client)
		// What was not passed on is the dead master's, and newer than the replica's stop.
		notPassedOn := map[string]bool{}
		for _, call := range accepted {
			if _, there := kept[call.ID]; there {
				continue
			}
			notPassedOn[call.ID] = true
			if !dead.has(t, client, l.ns, call) || call.Time.Before(since) {
				t.Errorf("%s has no record, and it is not because it was not passed on: %+v", call.ID, call)
			}
		}
		l.supervise()
		l.awaitAccepted(3 * perS)
		e := l.end()
		var forgotten, half, window []string // of those sent twice
		for _, call := range l.provider.Calls() {
			if call.Kind != event.AcceptedAgain {
				continue
			}
			switch state := kept[call.ID]; {
			case notPassedOn[call.ID]:
				forgotten = append(forgotten, call.ID)
			case state == idem.Pending && dead.has(t, client, l.ns, call):
				half = append(half, call.ID)
			case state == idem.Pending:
				window = append(window, call.ID)
			default:
				t.Errorf("%s was sent again, and its record was %q", call.ID, state)
			}
		}
		t.Logf("%s and the workers killed: %v; of %d accepted %d records were not passed on, of which sent again %q; of which only done was not passed on %q; died before done %q",
			dead.master.Server, e, len(accepted), len(notPassedOn), forgotten, half, window)
		if len(notPassedOn) == 0 {
			t.Error("all records were passed on: it shows nothing")
		}
		if len(e.lost) > 0 {
			t.Errorf("lost %q", e.lost)
		}
		if most := 2 * 16; len(half) > most || len(window) > most {
			t.Errorf("%d and %d were in a handler's hand, of %d handlers", len(half), len(window), most)
		}
	})
}

// awaitNobody waits until no worker of the corner is left.
func (l *load) awaitNobody() {
	l.t.Helper()
	for ctx := patience(l.t); ; {
		workers := 0
		for _, command := range l.processes() {
			if strings.Contains(command, " worker ") {
				workers++
			}
		}
		if workers == 0 {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond): // of another's child there is no event
		case <-ctx.Done():
			l.t.Fatal("the workers live")
		}
	}
}

// records returns the states of the records, by their ids, as soon as every master
// answers.
func (l *load) records(client idem.Client) map[string]idem.State {
	l.t.Helper()
	for ctx := patience(l.t); ; {
		if all, err := idem.List(ctx, client, notify.Namespace(l.ns), ""); err == nil {
			states := map[string]idem.State{}
			for _, r := range all {
				states[r.ID] = r.Record.State
			}
			return states
		} else if ctx.Err() != nil {
			l.t.Fatal(err)
		}
	}
}
