// Package idem keeps the record that makes a redelivery harmless, and knows who
// is dead.
//
// # The record
//
// One Redis key for each notification, channel and user; one value:
//
//	<state> <owner> <nonce> <fingerprint>
//
// The state is claimed (no lease: a permanent fact, for the retention), pending
// (a lease) or done (for the retention). The owner is a worker's life, the nonce
// one handling of one delivery, the fingerprint what the person would see.
//
//	        claim                    complete
//	(none) ───────► pending (lease) ──────────► done (retention)
//	   ▲               │  ▲ recover, when its owner is dead
//	   └───────────────┘  └───
//	    release, expiry
//
// A claim is one native command, SET NX GET: nothing there, or this handling's
// own value, is acquired (a client that lost the reply asks again, and must not
// be refused by itself). Everything that changes a record that exists compares
// first, in a script of one key, so whoever comes late changes nothing that is
// not theirs, and what is done stays done. So every command may run late and
// twice. One case is worth knowing: a claim that the client gave up on, delayed
// on its way to after the release of the same handling, writes the record once
// more. Pending then holds up the copy for a lease; claimed, which has none, drops
// it: that state loses.
//
// Claims and completions of handlers that are at it at the same time go together:
// what comes while one batch is on its way is the next one. With a round trip for each
// a worker would be about a third as fast (measured). The order stays that in which they
// were asked, and a batch that is not answered is sent once more as a whole, which is
// what "late and twice" is for.
//
// What is no record (somebody wrote into the key by hand) is a conflict: nothing
// is sent and nothing overwritten. Whoever finds it, or another text's record, where its
// own was, releases nothing and makes its copy all the same: nobody else would send
// that text. The copy meets the conflict and is parked.
//
// # The lease
//
// A lease is counted from before the claim's first byte left, on this machine's
// clocks, by the later of two: the one that goes on in suspend, and the wall.
// So it ends here no later than in Redis. (As far as clocks tell: the clock of
// another machine's Redis, set forward, and a virtual machine frozen with both of
// its clocks, can't be seen from here.) Whoever sends looks first whether enough
// of it is left ([Claim.Left]).
//
// What stays open, whatever the record: a worker that is stopped between that
// look and the provider's acceptance; one that dies between the acceptance and
// done; servers that are away for longer than the lease in between. Each ends in
// a second send. Only a key that the provider knows closes them.
//
// # Who is dead?
//
// A worker holds a [Slot]: an exclusive lock on a file, which the kernel drops
// when the process dies and keeps while it is stopped. Its life, a nonce, stands
// in the file. The record's owner names the machine's boot, the file and the
// life, so whoever sees that very file can tell: another life in it, or no lock
// on it, and the owner is dead. Whoever does not see it can't, and waits for the
// lease to end; so does whoever finds no life in it at all. There are no host
// names and no counters in this: two containers never take each other for dead.
//
// # What a crash leaves behind
//
//	before the claim       nothing
//	after the claim        pending, of a dead owner: recovered at once on the same
//	                       machine, after the lease elsewhere. Without a lease:
//	                       claimed, and the redelivery is dropped: lost
//	after the send         the same, and the next send is the second
//	after done             done: the redelivery is dropped
//	after release          nothing; the original is still queued and is sent again
package idem
