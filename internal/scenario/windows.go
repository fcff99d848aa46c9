package scenario

import (
	"notifylab/internal/event"
	"notifylab/internal/worker"
)

// Four cells of the matrix as scenarios of their own: the windows that a lease
// leaves open, and what closes them.

func crashSend() Scenario {
	return crashAt(worker.AfterSend, Scenario{
		Name: "crash-send", Outcome: Twice, Next: "provider-key",
		Tags:     []string{"kill", "duplicate"},
		Title:    "the window that no lease closes: crash after the send, before done",
		Shows:    "a lease leaves one gap: crash before done, sent again",
		Settings: event.Settings{Idempotency: true, ClaimLease: true},
		Help: `The worker sends under its lease, the provider accepts, and the worker dies before the
record says done. What it leaves behind is pending, and a dead owner: just what lesson 5
leaves that dies before the send. Nothing in the record can tell the two apart, so the
claim is recovered and the notification is sent again.

Between what the provider has accepted and what our record says of it there is always
such a window, since they are two systems: however short it is made, a worker can die in
it. A lease turns lost into twice here, which is the better half. Whoever wants neither
needs a provider that recognises a second attempt.

What to look for
  CLAIMED, SENT, CRASH — worker dying after send, BEFORE done, CLAIM RECOVERED, and SENT
  again for the same id. The provider's ledger has it twice.`,
		ByHand: `  notifylab supervise push=1 -- --idempotency on --claim-lease on    # one terminal
  notifylab produce --channel push --crash-at after-send             # another
  # CLAIMED, SENT, CRASH, CLAIM RECOVERED, and SENT again`,
	})
}

func providerKey() Scenario {
	return crashAt(worker.AfterSend, Scenario{
		Name: "provider-key", Outcome: Once, Next: "zombie",
		Tags:     []string{"kill", "duplicate"},
		Title:    "closing the last window: a key that the provider knows",
		Shows:    "the same crash; the provider knows the second by its key",
		Settings: event.Settings{Idempotency: true, ClaimLease: true, ProviderKey: true},
		Help: `The same crash as in crash-send, but each attempt carries a header Idempotency-Key:
<id>:<channel>:<user>, the same one each time. The provider remembers the keys that it has
accepted, so the second attempt is no more than a question, and its answer is the same:
accepted. The window is closed where it is: at the one who can look into both halves.

The push services have no such key. APNs' apns-collapse-id and FCM's collapse_key merge
what a phone shows: the second send is accepted, transmitted, and may wake the phone again.
So for push the window of crash-send stays open; many mail and payment APIs do have a key.

What to look for
  CLAIMED, SENT, CRASH, CLAIM RECOVERED, SENT: the workers' lines are those of crash-send.
  The provider's ledger has it once, and one DEDUPLICATED (-v shows the provider's lines).`,
		ByHand: `  notifylab provider                                                 # one terminal: ACCEPTED, DEDUPLICATED
  notifylab supervise push=1 -- --provider-url http://127.0.0.1:3200 --idempotency on --claim-lease on --provider-key on   # another
  notifylab produce --channel push --crash-at after-send             # a third
  # the worker: SENT, CRASH, CLAIM RECOVERED, SENT; the provider: ACCEPTED, DEDUPLICATED`,
	})
}

func zombie() Scenario {
	return stopAt(worker.AfterClaim, Scenario{
		Name: "zombie", Outcome: Once, Next: "zombie-send",
		Tags:     []string{"stop"},
		Title:    "a worker that everybody took for dead wakes up",
		Shows:    "stopped after its claim past its lease: it does not send",
		Settings: event.Settings{Idempotency: true, ClaimLease: true},
		Help: `A worker claims, and is stopped (SIGSTOP: a long pause of a virtual machine or of a
debugger does the same). It sends no heartbeats, so after three of them the broker takes
its message back and hands it to a second worker. That one finds the record pending, of an
owner that may live, and waits: LEASE BUSY. When the lease has ended it claims and sends.
Then the first one wakes, in the middle of its handling, and knows of nothing.

It looks at the clock before it sends: there has to be enough of its lease left for a send
and the record of it. There is nothing left. Its session is over, too, so the message is
somebody else's, and it lets go of it: LEASE LOST.

Had it been stopped a moment later, after that look (before-send), it would wake to a send
whose deadline was made from the lease, and that has passed: nothing goes out either. Only a
stop in the send itself is too late for any look: zombie-send.

What to look for
  STOPPED, RECEIVED (redelivered) by the second worker after 3 s, LEASE BUSY, CLAIMED, SENT,
  DONE by it after 8 s, then WOKE, LEASE LOST by the first. The provider has it once.`,
		ByHand: `  notifylab supervise push=1 -- --idempotency on --claim-lease on --heartbeat 1s --lease 8s --send-timeout 1s   # one terminal
  notifylab produce --channel push --crash-at after-claim,stop     # another: STOPPED
  notifylab supervise push=1 -- --idempotency on --claim-lease on --heartbeat 1s --lease 8s --send-timeout 1s   # a third: LEASE BUSY
  pkill -CONT -f 'worker push'                                     # after its CLAIMED, SENT, DONE: WOKE, LEASE LOST
  notifylab matrix --only lease/before-send/stop -v                # and what a stop before-send comes to`,
	})
}

func zombieSend() Scenario {
	return stopAt(worker.MidSend, Scenario{
		Name: "zombie-send", Outcome: Twice, Next: "duplicate-publish",
		Tags:     []string{"stop", "duplicate"},
		Title:    "a worker is stopped in its send, for longer than its lease",
		Shows:    "stopped in the send past its lease: another sends it, too",
		Settings: event.Settings{Idempotency: true, ClaimLease: true},
		Help: `The worker is stopped in the middle of its send: the provider has accepted, and the answer
lies unread. The broker takes the message back, the lease ends, and a second worker claims
and sends. When the first one wakes there is nothing left to prevent: no look at a clock
helps after the provider has accepted. Whether it still reads its answer (SENT) or finds
that its time is over (UNKNOWN) is chance; in both cases it finds the record to be somebody
else's, leaves it alone, and makes no copy.

It is the window of crash-send without anybody dying. With --provider-key on it is closed:
the provider knows the second one by its key.

What to look for
  STOPPED — worker stopped DURING send, LEASE BUSY, CLAIMED, SENT and DONE by the second
  worker, WOKE and LEASE LOST by the first. The provider's ledger has it twice, whatever the
  workers say: count their SENT lines.`,
		ByHand: `  notifylab provider                                               # one terminal
  notifylab supervise push=1 -- --provider-url http://127.0.0.1:3200 --idempotency on --claim-lease on --heartbeat 1s --lease 8s --send-timeout 1s   # another
  notifylab produce --channel push --crash-at mid-send,stop        # a third: STOPPED
  notifylab supervise push=1 -- --provider-url http://127.0.0.1:3200 --idempotency on --claim-lease on --heartbeat 1s --lease 8s --send-timeout 1s   # a fourth: LEASE BUSY
  pkill -CONT -f 'worker push'                                     # after its SENT, DONE: the provider has ACCEPTED AGAIN`,
	})
}
