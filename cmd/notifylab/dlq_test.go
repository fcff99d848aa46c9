package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/api"
	"notifylab/internal/broker"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
)

func (c corner) work() string        { return c.names().Work(notify.Push) }
func (c corner) deadLetters() string { return c.names().DeadLetters(notify.Push) }

// bury puts n notifications straight among the dead letters of push: d1, d2 …
func (c corner) bury(n int) (ids []string) {
	c.t.Helper()
	ctx, conn := patience(c.t), c.connection()
	do(c.t, "declare", conn.Declare(ctx, c.topology(notify.Push)))
	p, err := conn.Publisher(ctx, n)
	do(c.t, "publisher", err)
	var receipts []*broker.Receipt
	for i := range n {
		note := notify.Notification{ID: fmt.Sprint("d", i+1), User: fmt.Sprint(7 + i%2), Text: "hello"}
		ids = append(ids, note.ID)
		r, err := p.Start(ctx, broker.Message{Queue: c.deadLetters(), ID: note.ID, Body: notify.Encode(note)})
		do(c.t, "publish", err)
		receipts = append(receipts, r)
	}
	for _, r := range receipts {
		if fate, err := r.Wait(ctx); fate != broker.Confirmed {
			c.t.Fatal(fate, err)
		}
	}
	return ids
}

// taken takes all out of a queue and returns the ids.
func (c corner) taken(queue string) (ids []string) {
	c.t.Helper()
	conn, err := amqp.Dial(c.amqp)
	do(c.t, "dial", err)
	defer conn.Close()
	ch, err := conn.Channel()
	do(c.t, "channel", err)
	for {
		m, ok, err := ch.Get(queue, true)
		do(c.t, "get", err)
		if !ok {
			return ids
		}
		ids = append(ids, m.MessageId)
	}
}

// listed are the ids that dlq list shows.
func (c corner) listed(flags ...string) (ids []string) {
	c.t.Helper()
	r := c.run(append([]string{"dlq", "list", "push", "-o", "json", "--limit", "5000"}, flags...)...)
	r.wantStatus(exitOK)
	for _, line := range r.lines() {
		var l struct{ Kind, ID string }
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Kind != "dead_letter" {
			c.t.Fatalf("%v: %s", err, line)
		}
		ids = append(ids, l.ID)
	}
	return ids
}

func (c corner) wantListed(want []string) {
	c.t.Helper()
	if got := c.listed(); !slices.Equal(got, want) {
		c.t.Errorf("%d dead letters, want %d\n%.300v\n%.300v", len(got), len(want), got, want)
	}
}

// inHand waits until somebody has the dead letters in hand, and says whether he did
// before r ended.
func (c corner) inHand(conn *broker.Conn, r *running) bool {
	c.t.Helper()
	for ctx := patience(c.t); !r.over(); {
		_, consumers, _, err := conn.Ready(ctx, c.deadLetters())
		do(c.t, "look", err)
		if consumers > 0 {
			return true
		}
	}
	return false
}

// atRest waits until nobody has any of so many dead letters in hand.
func (c corner) atRest(conn *broker.Conn, letters int) {
	c.t.Helper()
	eventually(c.t, "dead letters are in hand", func() string {
		n, consumers, _, err := conn.Ready(patience(c.t), c.deadLetters())
		if n != letters || consumers > 0 || err != nil {
			return fmt.Sprintf("%d of %d ready, %d consumers, %v", n, letters, consumers, err)
		}
		return ""
	})
}

// inTurn waits for the end of r, which runs with these arguments. If it has waited for
// its turn in vain, as on a busy machine, it is run again.
func (c corner) inTurn(r *running, args ...string) *running {
	c.t.Helper()
	eventually(c.t, "it has no turn", func() string {
		if r.wait() == exitUnavailable && len(having(r.errors(), "the dead letters of push are taken")) > 0 {
			text := r.errorText()
			r = c.start(args...)
			return text
		}
		return ""
	})
	return r
}

// dated says whether a line has the date of today or, of a test that began before
// midnight, of yesterday.
func dated(line string, began time.Time) bool {
	const day = "2006-01-02"
	return strings.Contains(line, time.Now().Format(day)) || strings.Contains(line, began.Format(day))
}

// A worker parks what is refused; what is known of it is shown, and only that.
func TestDLQ_list_and_show(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := newCorner(t)
	r := c.run("dlq", "list", "push")
	r.wantStatus(exitOK)
	if r.text() != "no dead letters" || c.run("dlq", "list", "push", "-o", "json").text() != "" {
		t.Error(r.all())
	}
	if r := c.run("dlq", "show", "push"); r.wait() != exitOK || r.text() != "no dead letters" {
		t.Error(r.all())
	}
	w := c.start("worker", "push", "--backoff", "50ms", "--attempts", "2")
	w.awaitLine("READY")
	for _, id := range []string{"a", "b"} {
		c.run("produce", "--mode", "bad-token", "--id", id).wantStatus(exitOK)
		w.awaitLine("DEAD-LETTER notif:" + id)
	}
	w.stop()

	text := c.run("dlq", "list", "push")
	text.wantStatus(exitOK)
	lines := text.lines()
	if len(lines) != 3 || len(having(lines[:1], "notification", "user", "reason", "attempts", "last error", "when", "worker")) != 1 {
		t.Fatal(text.all())
	}
	for i, id := range []string{"a", "b"} {
		if f := strings.Fields(lines[i+1]); f[0] != id || f[1] != "999" || f[2] != "refused" || f[3] != "2" || f[len(f)-1] != "push-worker-1" {
			t.Errorf("line %q", lines[i+1])
		}
		if !dated(lines[i+1], began) {
			t.Errorf("no absolute time in %q", lines[i+1])
		}
	}
	if again := c.run("dlq", "list", "push"); again.text() != text.text() {
		t.Errorf("another look sees\n%s\nnot\n%s", again.text(), text.text())
	}
	for flags, want := range map[string]string{"--id b": "b", "--user 999": "a b", "--user 7": "", "--reason refused": "a b", "--reason crashed": ""} {
		if got := strings.Join(c.listed(strings.Fields(flags)...), " "); got != want {
			t.Errorf("%s: %q, want %q", flags, got, want)
		}
	}
	short := c.run("dlq", "list", "push", "--limit", "1")
	if n := len(short.lines()); n != 3 || short.lines()[2] != "showing 1 of 2" {
		t.Error(short.all())
	}

	show := c.run("dlq", "show", "push", "--id", "b")
	show.wantStatus(exitOK)
	for _, parts := range [][]string{{"notification  b"}, {"refused, after 2 attempts"}, {"first error"}, {"by push-worker-1"}, {"body", `{"id":"b","user":"999"`}, {"history", "attempt 1 refused"}, {"history", "attempt 2 refused"}} {
		if len(having(show.lines(), parts...)) != 1 {
			t.Errorf("no line with %q\n%s", parts, show.all())
		}
	}
	none := c.run("dlq", "show", "push", "--id", "c")
	none.wantStatus(exitFinding)
	if none.text() != "" || none.errorText() != "notifylab: no such dead letter" {
		t.Error(none.all())
	}
	c.wantListed([]string{"a", "b"})
}

// What is watched is shown once, and when one leaves the others are no news.
func TestDLQ_list_watched(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	c.bury(3)
	r := c.start("dlq", "list", "push", "-w")
	r.awaitLine("d3")
	purge := []string{"dlq", "purge", "push", "--id", "d1", "--yes"}
	c.inTurn(c.start(purge...), purge...).wantStatus(exitOK)
	r.awaitLine("d1", "gone")
	c.bury(4) // d1, d2 and d3 once more, and one that is new
	r.awaitLine("d4")
	r.stop()
	for id, want := range map[string]int{"d1": 3, "d2": 2, "d3": 2, "d4": 1} {
		if n := len(having(r.lines(), "  "+id+" ")); n != want {
			t.Errorf("%d lines on %s, want %d\n%s", n, id, want, r.all())
		}
	}
}

// A look that is killed in the middle leaves all where they were.
func TestDLQ_list_killed_in_the_middle(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	ids := c.bury(2000)
	conn := c.connection()
	for hit, tries := 0, 0; hit < 5; tries++ {
		if tries == 50 {
			t.Fatalf("only %d of %d kills hit", hit, tries)
		}
		r := c.start("dlq", "list", "push")
		if !c.inHand(conn, r) {
			continue
		}
		r.signal(syscall.SIGKILL)
		if r.wait() != exitOK {
			hit++
			c.atRest(conn, len(ids))
			c.wantListed(ids)
		}
	}
	if got := c.taken(c.deadLetters()); !slices.Equal(got, ids) {
		t.Errorf("%d are left, or in another order", len(got))
	}
}

// Wherever a replay is killed nothing is lost, and a second one completes it.
func TestDLQ_replay_killed(t *testing.T) {
	t.Parallel()
	for _, lines := range []int{0, 1, 100, 400} {
		t.Run(fmt.Sprint("after ", lines), func(t *testing.T) {
			t.Parallel()
			c := newCorner(t)
			ids := c.bury(500)
			conn := c.connection()
			r := c.start("dlq", "replay", "push", "--all")
			if lines == 0 {
				c.inHand(conn, r)
			} else {
				r.awaitLines(lines, ": replayed")
			}
			r.signal(syscall.SIGKILL)
			if status := r.wait(); status != exitKilled {
				t.Logf("it ended before, with %d", status)
			}
			eventually(t, "dead letters are in hand", func() string {
				work, _, _, err := conn.Ready(patience(t), c.work())
				letters, consumers, _, other := conn.Ready(patience(t), c.deadLetters())
				if consumers > 0 || work+letters < len(ids) {
					return fmt.Sprint(work, letters, consumers, err, other)
				}
				return ""
			})
			left := c.listed()
			again := c.run("dlq", "replay", "push", "--all")
			again.wantStatus(exitOK)
			want := fmt.Sprintf("%d replayed, 0 already sent, 0 lost", len(left))
			if last := again.lastLine(); last != want {
				t.Errorf("%q, want %q", last, want)
			}
			wantOnceOrTwice(t, c.taken(c.work()), ids, onTheirWay+unread)
			c.wantListed(nil)
		})
	}
}

// What a replay has on its way at once, and the acks that a broker may drop because it
// has not come to them when their connection ends: none on 3.10, up to 13 on 4.0.
const onTheirWay, unread = 64, 32

const exitKilled = 128 + int(syscall.SIGKILL)

// wantOnceOrTwice expects all ids and no others, at most so many of them twice.
func wantOnceOrTwice(t *testing.T, got, want []string, twice int) {
	t.Helper()
	times := map[string]int{}
	for _, id := range got {
		times[id]++
	}
	var lost []string
	for _, id := range want {
		if times[id] == 0 {
			lost = append(lost, id)
		}
	}
	if len(lost) > 0 || len(times) != len(want) || len(got) > len(want)+twice {
		t.Errorf("%d of %d, %d different, lost: %.200v", len(got), len(want), len(times), lost)
	}
}

func TestDLQ_replay_in_parallel(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	ids := c.bury(30) // few: the second waits five seconds for its turn, and no longer
	text := []string{"dlq", "replay", "push", "--all"}
	objects := append(slices.Clone(text), "-o", "json")
	one, two := c.start(text...), c.start(objects...)
	one, two = c.inTurn(one, text...), c.inTurn(two, objects...)
	one.wantStatus(exitOK)
	two.wantStatus(exitOK)
	var sum api.Replay
	last := two.lastLine()
	if err := json.Unmarshal([]byte(last), &sum); err != nil || sum.Kind != "replayed" {
		t.Fatalf("%v: %s", err, last)
	}
	want := fmt.Sprintf("%d replayed, 0 already sent, 0 lost", len(ids)-sum.Replayed)
	if last := one.lastLine(); last != want {
		t.Errorf("%q beside %+v, want %q", last, sum, want)
	}
	wantOnceOrTwice(t, c.taken(c.work()), ids, 0)
}

// However many there are, none is out of reach: what a list leaves out it counts, and
// the last one is replayed like the first. (hibiken/asynq#803, #1171)
func TestDLQ_of_fifteen_thousand(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	for range 15 {
		c.bury(1000)
	}
	c.put(c.deadLetters(), `{"id":"last","user":"9","text":"hello"}`)
	list := c.run("dlq", "list", "push", "--limit", "100")
	list.wantStatus(exitOK)
	if lines := list.lines(); len(lines) != 102 || lines[101] != "showing 100 of 15001" {
		t.Errorf("%d lines, the last is %s", len(lines), list.lastLine())
	}
	r := c.run("dlq", "replay", "push", "--user", "9")
	r.wantStatus(exitOK)
	if last := r.lastLine(); last != "1 replayed, 0 already sent, 0 lost" {
		t.Error(r.all())
	}
	c.wantReady(c.work(), 1)
	c.wantReady(c.deadLetters(), 15000)
}

// A worker that dies between copy and ack leaves two dead letters. Both are replayed,
// and one is sent. (JasperFx/wolverine#4488, apache/pulsar#4426)
func TestDLQ_replay_of_two_copies(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	c.bury(1)
	c.bury(1)
	r := c.run("dlq", "replay", "push", "--all")
	r.wantStatus(exitOK)
	if last := r.lastLine(); last != "2 replayed, 0 already sent, 0 lost" {
		t.Error(r.all())
	}
	w := c.start("worker", "push", "--idempotency", "on", "--claim-lease", "on")
	w.awaitLine("DUPLICATE DROPPED push notif:d1")
	w.stop()
	if n := len(having(w.lines(), "SENT push notif:d1")); n != 1 {
		t.Errorf("sent %d times\n%s", n, w.all())
	}
	c.wantListed(nil)
}

// The record decides: done stays, claimed stays unless it is forced.
// (hookdeck/outpost#670)
func TestDLQ_replay_reads_the_record(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	c.bury(3)
	client, err := idem.Dial(c.redis, 1)
	do(t, "dial", err)
	defer client.Close()
	for id, state := range map[string]idem.State{"d1": idem.Done, "d2": idem.Claimed} {
		n := notify.Notification{ID: id, User: map[string]string{"d1": "7", "d2": "8"}[id], Text: "hello"}
		rec := idem.Record{State: state, Owner: idem.Owner{Boot: "b", File: "1:2", Slot: 3, Life: "l"}, Nonce: "n", Fingerprint: notify.Fingerprint(n)}
		do(t, "record", client.Set(patience(t), notify.Namespace(c.ns).Key(notify.Key(n, notify.Push)), rec.String(), time.Minute).Err())
	}
	c.wantUsage([]string{"dlq", "replay", "push"}, "--all")
	for _, step := range []struct {
		flags  string
		status int
		lines  []string
	}{
		{"--all --dry-run", exitFinding, []string{
			"push notif:d1 for user:7: already sent, stays", "push notif:d2 for user:8: claimed: nobody knows whether it was sent, stays",
			"push notif:d3 for user:7: would be replayed", "1 replayed, 1 already sent, 0 lost, 1 unknown (claimed; --force replays them); nothing was done"}},
		{"--id d1", exitOK, []string{"push notif:d1 for user:7: already sent, stays", "0 replayed, 1 already sent, 0 lost"}},
		{"--user 8", exitFinding, []string{"push notif:d2 for user:8: claimed: nobody knows whether it was sent, stays", "0 replayed, 0 already sent, 0 lost, 1 unknown (claimed; --force replays them)"}},
		{"--id d3 -o json", exitOK, []string{`{"channel":"push","id":"d3","kind":"replay","user":"7","what":"replayed"}`,
			`{"kind":"replayed","replayed":1,"already_sent":0,"unknown":0,"lost":0,"dry_run":false}`}},
		{"--all --force", exitOK, []string{"push notif:d1 for user:7: already sent, stays", "push notif:d2 for user:8: replayed", "1 replayed, 1 already sent, 0 lost"}},
	} {
		r := c.run(append([]string{"dlq", "replay", "push"}, strings.Fields(step.flags)...)...)
		r.wantStatus(step.status)
		if !slices.Equal(r.lines(), step.lines) || r.errorText() != "" {
			t.Errorf("%s\n%s\nwant\n%s", step.flags, r.all(), strings.Join(step.lines, "\n"))
		}
	}
	for _, args := range []string{"replay push --id d9", "purge push --id d9 --yes"} {
		r := c.run(append([]string{"dlq"}, strings.Fields(args)...)...)
		r.wantStatus(exitFinding)
		if r.errorText() != "notifylab: no such dead letter" {
			t.Errorf("%s: %s", args, r.all())
		}
	}
	w := c.start("worker", "push", "--idempotency", "on")
	w.awaitLine("SENT push notif:d2")
	w.awaitLine("SENT push notif:d3")
	w.stop()
	c.wantListed([]string{"d1"})
}

// A message that the broker parked by its own limit is replayed, refused once, waits
// in the retry queue and is sent: 3.10 drops it if the broker's headers are kept.
// (rabbitmq/rabbitmq-server#11159)
func TestDLQ_replay_of_what_the_broker_parked(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := newCorner(t)
	c.publishN(1)
	conn, err := amqp.Dial(c.amqp)
	do(t, "dial", err)
	defer conn.Close()
	ch, err := conn.Channel()
	do(t, "channel", err)
	all, err := ch.Consume(c.work(), "", false, false, false, false, nil)
	do(t, "consume", err)
	ctx := patience(t)
	for range broker.DeliveryLimit + 1 {
		select {
		case m := <-all:
			do(t, "nack", m.Nack(false, true))
		case <-ctx.Done():
			t.Fatal("no delivery")
		}
	}
	c.wantReady(c.deadLetters(), 1)
	conn.Close()
	list := c.run("dlq", "list", "push")
	if parked := having(list.lines(), "n1", "delivery_limit (the broker)"); len(parked) != 1 || !dated(parked[0], began) {
		t.Error(list.all())
	}
	var calls atomic.Int32
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer provider.Close()
	w := c.start("worker", "push", "--backoff", "100ms", "--provider-url", provider.URL)
	w.awaitLine("READY")
	c.run("dlq", "replay", "push", "--reason", "delivery_limit").wantStatus(exitOK)
	w.awaitLine("RETRY 1/3 (0.1s backoff) push notif:n1")
	w.awaitLine("SENT push notif:n1")
	w.stop()
	c.wantListed(nil)
}

// While everything is still refused a replay handles what was there, and ends.
// (onebeyond/rascal#222)
func TestDLQ_replay_while_still_broken(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	ids := c.bury(10)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }))
	defer provider.Close()
	w := c.start("worker", "push", "--provider-url", provider.URL)
	w.awaitLine("READY")
	for round := 1; round <= 2; round++ {
		r := c.run("dlq", "replay", "push", "--all")
		r.wantStatus(exitOK)
		if last := r.lastLine(); last != "10 replayed, 0 already sent, 0 lost" {
			t.Error(r.all())
		}
		w.awaitLines(10*round, "DEAD-LETTER")
	}
	w.stop()
	got := c.listed()
	slices.Sort(got)
	slices.Sort(ids)
	if !slices.Equal(got, ids) {
		t.Errorf("parked again: %v", got)
	}
	if show := c.run("dlq", "show", "push", "--id", "d1"); len(having(show.lines(), "history", " replayed")) != 2 || len(having(show.lines(), "history", "attempt 1 refused")) != 2 {
		t.Errorf("the history is not kept\n%s", show.all())
	}
}

// What can't be published stays, and the command ends with what was done.
func TestDLQ_replay_without_a_work_queue(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	ids := c.bury(2)
	do(t, "delete", c.connection().Delete(patience(t), c.work()))
	r := c.run("dlq", "replay", "push", "--all")
	r.wantStatus(exitFinding)
	if r.text() != "0 replayed, 0 already sent, 0 lost" || r.errorText() != "notifylab: replay d1 to "+c.work()+": returned: 312 NO_ROUTE" {
		t.Error(r.all())
	}
	c.wantListed(ids)
}

func TestDLQ_purge(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	c.bury(4)
	c.wantUsage([]string{"dlq", "purge", "push"}, "--yes", "no terminal")
	c.wantUsage([]string{"dlq", "purge", "sms", "--yes"}, "sms")
	c.wantUsage([]string{"dlq", "purg", "push"}, "did you mean purge")
	c.wantReady(c.deadLetters(), 4)
	r := c.run("dlq", "purge", "push", "--user", "8", "--yes")
	r.wantStatus(exitOK)
	if r.text() != "2 purged" {
		t.Error(r.all())
	}
	c.wantListed([]string{"d1", "d3"})
	r = c.run("dlq", "purge", "push", "--yes", "-o", "json")
	if r.wantStatus(exitOK); r.text() != `{"channel":"push","kind":"purged","purged":2}` {
		t.Error(r.all())
	}
	c.wantListed(nil)
}

// Two wait for each other; who waits in vain says who is at it.
func TestDLQ_turns(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	c.bury(2)
	client, err := idem.Dial(c.redis, 2)
	do(t, "dial", err)
	defer client.Close()
	desk := api.Desk{Redis: client, Broker: c.connection(), Namespace: notify.Namespace(c.ns), Who: "notifylab dlq replay"}
	holding := make(chan struct{})
	turn, letGo := context.WithCancel(patience(t))
	over := make(chan error, 1)
	go func() {
		n := 0
		_, err := desk.Replay(turn, notify.Push, api.ReplayOptions{DryRun: true, Tell: func(api.Letter, string) {
			if n++; n == 1 {
				close(holding)
				<-turn.Done()
			}
		}})
		over <- err
	}()
	<-holding
	var vain []*running
	for _, args := range []string{"list push", "show push", "replay push --all", "purge push --yes"} {
		vain = append(vain, c.start(append([]string{"dlq"}, strings.Fields(args)...)...))
	}
	for _, r := range vain {
		r.wantStatus(exitUnavailable)
		if len(having(r.errors(), "notifylab: the dead letters of push are taken: notifylab dlq replay, pid ", ", since ")) != 1 || r.text() != "" || len(r.errors()) != 1 {
			t.Error(r.all())
		}
	}
	waits := c.start("dlq", "list", "push")
	letGo()
	waits.wantStatus(exitOK)
	if len(waits.lines()) != 3 {
		t.Error(waits.all())
	}
	<-over
}
