package main

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
	"time"

	"notifylab/internal/event"
)

// The text of every kind of event, as design.md has it.
func TestLine(t *testing.T) {
	t.Parallel()
	of := func(kind event.Kind, e event.Event) event.Event {
		e.Kind, e.ID, e.Channel, e.User = kind, "k7f3-1", "push", "7"
		return e
	}
	at := func(kind event.Kind, point string) event.Event { return of(kind, event.Event{Point: point}) }
	seconds := func(n float64) int64 { return int64(n * 1000) }
	tests := []struct {
		e    event.Event
		want string
	}{
		{of(event.Queued, event.Event{Queue: "k7f3.notify.push"}), `QUEUED push notif:k7f3-1 for user:7 -> notify.push`},
		{of(event.Queued, event.Event{Queue: "notify.push", State: "confirmed"}), `QUEUED push notif:k7f3-1 for user:7 -> notify.push (confirmed)`},
		{of(event.Returned, event.Event{Queue: "k7f3.notify.push"}), `RETURNED push notif:k7f3-1: no queue notify.push`},
		{of(event.Unconfirmed, event.Event{Queue: "notify.push", Reason: "no confirm in time"}), `UNKNOWN push notif:k7f3-1: published to notify.push, no confirm in time`},
		{of(event.Received, event.Event{}), `RECEIVED push notif:k7f3-1`},
		{of(event.Received, event.Event{Redelivered: true}), `RECEIVED push notif:k7f3-1 (redelivered)`},
		{of(event.Claimed, event.Event{Key: "k7f3:notification:k7f3-1:push:7", State: "pending", TTLMS: seconds(10)}), `CLAIMED push notif:k7f3-1 (notification:k7f3-1:push:7 = pending, 10s)`},
		{of(event.Claimed, event.Event{Key: "notification:k7f3-1:push:7", State: "claimed", TTLMS: seconds(86400)}), `CLAIMED push notif:k7f3-1 (notification:k7f3-1:push:7 = claimed, 24h)`},
		{of(event.ClaimRecovered, event.Event{}), `CLAIM RECOVERED push notif:k7f3-1 (previous attempt claimed it but never finished)`},
		{of(event.DuplicateDropped, event.Event{State: "done"}), `DUPLICATE DROPPED push notif:k7f3-1 (already sent to user:7)`},
		{of(event.DuplicateDropped, event.Event{State: "claimed"}), `DUPLICATE DROPPED push notif:k7f3-1 (already claimed for user:7)`},
		{of(event.Conflict, event.Event{}), `CONFLICT push notif:k7f3-1: same id, other text`},
		{of(event.LeaseBusy, event.Event{Owner: "push-worker-2", TTLMS: seconds(7.4)}), `LEASE BUSY push notif:k7f3-1, push-worker-2 has it for 7.4s`},
		{of(event.LeaseLost, event.Event{}), `LEASE LOST push notif:k7f3-1, not sending`},
		{of(event.LeaseLost, event.Event{Reason: "no copy: somebody else has the record"}), `LEASE LOST push notif:k7f3-1, no copy: somebody else has the record`},
		{of(event.Sent, event.Event{Text: "the one behind it"}), `SENT push notif:k7f3-1 -> user:7 "the one behind it"`},
		{of(event.Done, event.Event{TTLMS: seconds(86400)}), `DONE push notif:k7f3-1 (pending -> done, 24h)`},
		{of(event.Unrecorded, event.Event{Reason: "timed out"}), `UNRECORDED push notif:k7f3-1: accepted, its record does not say so: timed out`},
		{of(event.Unknown, event.Event{Reason: "no answer within 5s"}), `UNKNOWN push notif:k7f3-1: no answer within 5s`},
		{of(event.Retry, event.Event{Attempt: 1, Attempts: 3, BackoffMS: 500, Reason: "400 bad token"}), `RETRY 1/3 (0.5s backoff) push notif:k7f3-1: 400 bad token`},
		{of(event.Retry, event.Event{Attempt: 2, Attempts: 3, BackoffMS: 1000, Reason: "400 bad token"}), `RETRY 2/3 (1s backoff) push notif:k7f3-1: 400 bad token`},
		{of(event.DeadLetter, event.Event{Queue: "k7f3.push.dlq", Attempt: 3, Reason: "400 bad token"}), `DEAD-LETTER notif:k7f3-1 -> push.dlq after 3 attempts: 400 bad token`},
		{of(event.DeadLetter, event.Event{Queue: "push.dlq", Attempt: 1, Reason: "410"}), `DEAD-LETTER notif:k7f3-1 -> push.dlq after 1 attempt: 410`},
		{event.Event{Kind: event.DeadLetter, Channel: "push", Queue: "push.dlq", Reason: "malformed: the body is empty"}, `DEAD-LETTER -> push.dlq: malformed: the body is empty`},
		{event.Event{Kind: event.Draining, Channel: "push"}, `DRAINING push: begins nothing more, finishes what is in hand`},
		{of(event.DeadLetter, event.Event{Queue: "push.dlq", Reason: "malformed, the body is empty"}), `DEAD-LETTER notif:k7f3-1 -> push.dlq: malformed, the body is empty`},
		{of(event.CopyWaiting, event.Event{Queue: "push.dlq", Reason: "refused by the broker"}), `COPY WAITING push notif:k7f3-1: push.dlq: refused by the broker`},
		{of(event.Acked, event.Event{}), `ACKED push notif:k7f3-1`},
		{of(event.Dropped, event.Event{}), `DROPPED push notif:k7f3-1, its session is over: the broker hands it over again`},
		{event.Event{Kind: event.GivenBack, Queue: "k7f3.notify.push", Messages: 3}, `GIVEN BACK 3 to notify.push`},
		{event.Event{Kind: event.Ready, Queue: "k7f3.notify.push", Settings: &event.Settings{Idempotency: true}}, `READY on notify.push (idempotency on, claim-lease off)`},
		{event.Event{Kind: event.Ready, Queue: "notify.push", Settings: &event.Settings{Idempotency: true, ClaimLease: true, ProviderKey: true}}, `READY on notify.push (idempotency on, claim-lease on, provider-key on)`},
		{event.Event{Kind: event.Ready, Queue: "notify.push", Settings: &event.Settings{ClaimLease: true}}, `READY on notify.push (idempotency off, claim-lease on; claim-lease alone does nothing)`},
		{event.Event{Kind: event.Ready, Queue: "notify.push", Settings: &event.Settings{Ack: "early"}}, `READY on notify.push (ack early, as with all off, whatever the settings say)`},
		{event.Event{Kind: event.Ready, Queue: "notify.push"}, `READY on notify.push (settings unknown, Redis does not answer)`},
		{at(event.Crash, "after-receive"), `CRASH — worker dying after receive, BEFORE claim (notif:k7f3-1)`},
		{at(event.Crash, "after-claim"), `CRASH — worker dying AFTER claim, BEFORE send (notif:k7f3-1)`},
		{at(event.Crash, "before-send"), `CRASH — worker dying BEFORE send (notif:k7f3-1)`},
		{at(event.Crash, "mid-send"), `CRASH — worker dying DURING send, answer unread (notif:k7f3-1)`},
		{at(event.Crash, "after-send"), `CRASH — worker dying after send, BEFORE done (notif:k7f3-1)`},
		{at(event.Crash, "before-ack"), `CRASH — worker dying after send, BEFORE ack (notif:k7f3-1)`},
		{at(event.Crash, "after-ack"), `CRASH — worker dying AFTER ack (notif:k7f3-1)`},
		{at(event.Crash, "before-copy"), `CRASH — worker dying before copy (notif:k7f3-1)`},
		{at(event.Crash, "after-copy"), `CRASH — worker dying after copy, BEFORE ack (notif:k7f3-1)`},
		{at(event.Stopped, "after-claim"), `STOPPED — worker stopped AFTER claim, BEFORE send (notif:k7f3-1)`},
		{of(event.Woke, event.Event{Elapsed: seconds(9.1)}), `WOKE push notif:k7f3-1 after 9.1s`},
		{event.Event{Kind: event.Restart, Owner: "push-worker-1", Exit: "killed"}, `RESTART push-worker-1 (killed)`},
		{event.Event{Kind: event.Restart, Owner: "push-worker-1", Exit: "exit 3", WaitMS: 100}, `RESTART push-worker-1 (exit 3) in 0.1s`},
		{event.Event{Kind: event.GaveUp, Owner: "push-worker-1", Exit: "exit 3", Restarts: 5}, `GAVE UP push-worker-1 after 5 restarts (exit 3)`},
		{event.Event{Kind: event.GaveUp, Owner: "push-worker-1", Exit: "killed", Restarts: 1}, `GAVE UP push-worker-1 after 1 restart (killed)`},
		{event.Event{Kind: event.Exited, Owner: "push-worker-1", Exit: "exit 0"}, `push-worker-1 ended (exit 0)`},
		{event.Event{Kind: event.Disconnect, Reason: "Redis does not answer"}, `DISCONNECTED Redis does not answer`},
		{event.Event{Kind: event.Reconnected, Reason: "Redis answers again", Elapsed: seconds(2.3)}, `RECONNECTED after 2.3s: Redis answers again`},
		{event.Event{Kind: event.Note, Reason: "nobody consumes it"}, `nobody consumes it`},
		{event.Event{Kind: event.Note, Owner: "push-worker-1", Reason: "left its output open"}, `push-worker-1 left its output open`},
		{event.Event{Kind: event.Log, Line: "panic: oh\x1b[31m"}, `panic: oh\x1b[31m`},
		{of(event.Accepted, event.Event{Text: "hello"}), `ACCEPTED push notif:k7f3-1 for user:7 "hello"`},
		{of(event.AcceptedAgain, event.Event{}), `ACCEPTED AGAIN push notif:k7f3-1 for user:7`},
		{of(event.Deduplicated, event.Event{Key: "k7f3-1:push:7"}), `DEDUPLICATED push notif:k7f3-1 (key k7f3-1:push:7)`},
		{of(event.Refused, event.Event{Reason: "400 bad token"}), `REFUSED push notif:k7f3-1 for user:7: 400 bad token`},
	}
	in := func(kind event.Kind, e event.Event) event.Event {
		e.Kind, e.ID, e.User, e.Pass, e.Membership = kind, "k7f3-1", "7", "pass-1", event.Membership{Group: "notify", Generation: 3}
		return e
	}
	record := event.Event{Position: &event.Position{Partition: 2, Offset: 41}}
	tests = append(tests, []struct {
		e    event.Event
		want string
	}{
		{event.Event{Kind: event.Ready, Membership: event.Membership{Group: "notify", Generation: 3}}, `READY in group notify`},
		{event.Event{Kind: event.Ready, Queue: "k7f3.passes.notify", State: "ack late"}, `READY on passes.notify (ack late)`},
		{event.Event{Kind: event.Received, ID: "k7f3-1", Redelivered: true}, `RECEIVED notif:k7f3-1 (redelivered)`},
		{event.Event{Kind: event.Retry, ID: "k7f3-1", BackoffMS: 50, Reason: "503"}, `RETRY (0.05s backoff) notif:k7f3-1: 503`},
		{event.Event{Kind: event.Sent, Channel: "push", ID: "k7f3-1", User: "7", Text: "t", Position: record.Position}, `SENT push P2@41 notif:k7f3-1 -> user:7 "t"`},
		{event.Event{Kind: event.Crash, ID: "k7f3-1", Point: "after-read"}, `CRASH — worker dying after read, BEFORE handling (notif:k7f3-1)`},
		{event.Event{Kind: event.Crash, ID: "k7f3-1", Point: "before-commit"}, `CRASH — worker dying BEFORE commit (notif:k7f3-1)`},
		{event.Event{Kind: event.Stopped, ID: "k7f3-1", Point: "after-commit"}, `STOPPED — worker stopped AFTER commit (notif:k7f3-1)`},
		{in(event.Joined, event.Event{}), `JOINED group notify, generation 3`},
		{in(event.Assigned, event.Event{Assignment: &event.Assignment{Partitions: []int{0, 1}}}), `ASSIGNED P0 P1 in group notify, generation 3`},
		{in(event.Assigned, event.Event{Assignment: &event.Assignment{Partitions: []int{}}}), `ASSIGNED nothing (idle) in group notify, generation 3`},
		{in(event.Rebalanced, event.Event{Reason: "c1 gone"}), `REBALANCED group notify, generation 3: c1 gone`},
		{in(event.Left, event.Event{}), `LEFT group notify, generation 3`},
		{in(event.Read, record), `READ P2@41 notif:k7f3-1`},
		{in(event.Committed, record), `COMMITTED P2@41 notif:k7f3-1, group notify`},
		{in(event.CommitRefused, event.Event{Position: record.Position, Reason: "the group is in generation 4, this is of 3"}),
			`COMMIT REFUSED P2@41 notif:k7f3-1, group notify: the group is in generation 4, this is of 3`},
		{in(event.Fetched, event.Event{}), `FETCHED pass:pass-1 of user:7`},
		{in(event.Deleted, record), `DELETED pass:pass-1 P2@41 notif:k7f3-1`},
		{in(event.AlreadyDeleted, event.Event{}), `ALREADY DELETED pass:pass-1 notif:k7f3-1 (deleting it again changed nothing)`},
		{in(event.Failed, event.Event{Messages: 1, Reason: "503"}), `FAILED pass:pass-1 notif:k7f3-1: 503, and 1 step behind it not done`},
		{event.Event{Kind: event.Produced, Messages: 2000, Elapsed: 148}, `PRODUCED 2000 events in 0.148s`},
		{event.Event{Kind: event.Produced, Messages: 1, Elapsed: 9, Reason: "503"}, `PRODUCED 1 event in 0.009s: 503`},
	}...)
	shown := map[event.Kind]bool{}
	for _, tt := range tests {
		c, words, rest, ok := newPalette(false).line(tt.e, "k7f3")
		if got := words + rest; !ok || got != tt.want || c == nil {
			t.Errorf("%s\n got  %s\n want %s", tt.e.Kind, got, tt.want)
		}
		if words != strings.ToUpper(words) {
			t.Errorf("%s: %q is coloured and no capitals", tt.e.Kind, words)
		}
		shown[tt.e.Kind] = true
	}
	for _, kind := range kinds(t) {
		if !shown[kind] {
			t.Errorf("%s has no line in this table", kind)
		}
	}
}

// kinds lists every constant of event.Kind, from its source: one that is added
// later needs a line, too.
func kinds(t *testing.T) []event.Kind {
	t.Helper()
	var found []event.Kind
	list := func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Kind" {
			for _, v := range spec.Values {
				literal := v.(*ast.BasicLit)
				found = append(found, event.Kind(constant.StringVal(constant.MakeFromLiteral(literal.Value, literal.Kind, 0))))
			}
		}
		return true
	}
	for _, name := range []string{"event", "passes"} {
		file, err := parser.ParseFile(token.NewFileSet(), "../../internal/event/"+name+".go", nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, list)
	}
	if len(found) < 30 {
		t.Fatalf("only %v were found", found)
	}
	return found
}

// Whatever stands in an event's fields, its text is one line and inert.
func TestLine_escapes_every_field(t *testing.T) {
	t.Parallel()
	const evil = "x\x1b]0;owned\a\r\n\u202e\u0085\xff"
	for _, kind := range kinds(t) {
		e := event.Event{
			Time: time.Now(), Kind: kind, Source: evil, ID: evil, Channel: evil, User: evil, Text: evil, Queue: evil, Reason: evil,
			Key: evil, State: evil, Owner: evil, Point: evil, Exit: evil, Line: evil, Attempt: 1, Pass: evil,
			Membership: event.Membership{Group: evil, Generation: 1}, Position: &event.Position{},
		}
		var out strings.Builder
		(&printer{w: event.NewWriter(&out), palette: newPalette(false), verbose: true}).event(e)
		line, more, _ := strings.Cut(out.String(), "\n")
		if more != "" || line == "" || escape(line) != line {
			t.Errorf("%s: %q", kind, out.String())
		}
	}
}

// Only the capital words at the head of an event are coloured, and the mark of a
// redelivery; colour repeats what the words say.
func TestLine_colours_words_only(t *testing.T) {
	t.Parallel()
	coloured := regexp.MustCompile("\x1b\\[[0-9;]*[1-9][0-9;]*m([^\x1b]*)")
	want := map[event.Kind]string{
		event.Sent: "32", event.Done: "32", event.Crash: "31;1", event.DuplicateDropped: "33", event.Retry: "33",
		event.LeaseBusy: "33", event.LeaseLost: "33", event.DeadLetter: "35", event.Ready: "2",
	}
	for _, kind := range kinds(t) {
		e := event.Event{Kind: kind, ID: "i", Channel: "push", User: "u", Text: "t", Owner: "o", Reason: "r", Redelivered: true}
		c, words, rest, _ := newPalette(true).line(e, "")
		if code := want[kind]; code != "" && !strings.HasPrefix(c.Sprint(words), "\x1b["+code+"m"+words+"\x1b[") {
			t.Errorf("%s is %q, want colour %s", kind, c.Sprint(words), code)
		}
		for _, m := range coloured.FindAllStringSubmatch(rest, -1) {
			if strings.TrimSpace(m[1]) != "(redelivered)" {
				t.Errorf("%s: %q is coloured", kind, m[1])
			}
		}
	}
}
