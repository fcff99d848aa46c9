// Package worker takes deliveries of one channel's work queue and sees each to
// its end: sent and acked, put off, parked, dropped as a duplicate, or left to
// the broker. [handling.run] is the protocol, top to bottom:
//
//	receive → decode → settings → claim → clock check → send → complete → ack
//
// # What a crash between each two steps leaves behind
//
// The message is unacked all the way, so the broker hands it over again, at once
// when the process dies. What the next handling finds is the record:
//
//	                     without       claimed       pending, then done
//	after receive        once          once          once
//	after the claim                    lost          recovered: once
//	before the send      once          lost          recovered: once
//	during the send      twice         once          twice
//	after the send       twice         once          twice
//	after done                                       once
//	after the ack        once          once          once
//
// (ack early, before anything else, turns the first three into lost.) Nothing
// that is written here closes the two windows in the last column: between what
// the provider has accepted and what the record says there is always one. A key
// that the provider knows closes them.
//
// # Refusals
//
// A refusal releases the claim first, then makes a copy in a retry queue or
// among the dead letters, then acks. The other way round a record in state
// claimed would drop both the redelivery and the copy. A crash after the release
// leaves the message without a record; after the copy it leaves two, never none.
// Waiting is the broker's: nothing is blocked by a back-off, and a crash forgets
// none.
//
// # Sessions
//
// Handlers outlive the session that gave them their delivery: a send is never
// cut short, and what was accepted is recorded. But they make no copy then,
// since the broker has the message back. Deliveries that were not begun are
// dropped with the session.
//
// # Told to stop
//
// A worker that is told to stop takes no more deliveries, finishes what it has
// begun, and then gives back all the rest in one piece, so in its order. It does
// not wait for a server that is away: what was not sent is given back, what was
// accepted is acked and said to be unrecorded.
//
// # Poison
//
// A message that kills the worker never comes to a refusal, so it is counted:
// one that comes for the third time is a suspect, is handled with nothing else
// in hand, and is parked after [Config.MaxCrashes] such handlings that did not
// come to an end, whichever: one whose session ended under it has not killed the
// worker. The broker's own count can't be used for that: a crash raises
// it for everything that was prefetched.
package worker
