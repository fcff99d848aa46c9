// Package passes is the story's second half: passes expire, the events are kept in a
// log, and groups of readers go through it with cursors of their own.
//
// # The log
//
// The log is split into partitions, each of them a stream. An event goes into the
// partition that its pass id hashes to ([Log.Partition]), so whatever happens to one
// pass stays in order, and nothing is said about the order of two. Reading takes
// nothing out.
//
// # The group
//
// A group is one hash in Redis ([Group]):
//
//	partitions     4            how many the log has; nobody joins who thinks otherwise
//	generation     7            grows with every join, leave and death
//	member:c1      <nonce> <ms> until when it counts as alive, on Redis's clock
//	offset:0       41           the last offset that is done with, a partition each
//
// All that changes it is a script of that one key. A script that meets a member whose
// time is over puts it out; any change of who is in makes a new generation. Who has
// which partition is stored nowhere: it is a function of the members and the number of
// partitions ([Assign]), and whoever got both in one answer knows it as the others do.
//
// # The fence
//
// A cursor is moved by compare-and-set with the generation. Whoever knows an older
// one has perhaps lost its partitions, and is refused; so is whoever would move a
// cursor back. So a cursor tells the truth to the next owner, who learns it in the
// same answer as the generation: what was committed is not read again, and all that
// was not is.
//
// The fence is around the cursor and not around the work. A member that was stopped
// in mid-work does its work when it wakes, a second time by then, and is refused only
// afterwards. Handlers have to be idempotent.
//
// # A member
//
//	join → learn generation, members, cursors → read own partitions from cursor + 1 →
//	for each record: read → handle → commit → next
//	generation moved (heard with a heartbeat, or COMMIT REFUSED): stop reading, learn again
//
// One record is in hand at a time, so a new generation finds at most one in a member's
// hands: it is handled to its end, its commit is refused, and its partition's next
// owner reads it again.
//
// What is left behind when the process dies
//
//	                                handle, then commit       commit, then handle
//	before it joined                nothing                   nothing
//	after it joined, before a read  partitions that nobody reads, until its time is over
//	after a read                    read again: handled once  read again: handled once
//	after the handling              read again: handled twice –
//	after the commit                done: handled once        never handled: lost
//
// In each case survivors take its partitions over when its time is over and one of
// them beats, and resume at the cursor + 1. A member that was told to stop leaves,
// and they take over with their next heartbeat.
//
// # What stays open
//
// A member that is stopped between the look whether its time is over and the
// handling, or in it; handlers that take effect and are not committed. Both end in a
// second handling. And the fence rests on the hash: when somebody deletes it while
// members run, generations start anew and an old one may pass for a new one.
//
// # Without a log
//
// What the log is compared with is here, too. A [Caller] does all that has to be done
// about a pass in one call, and stops at what fails. A [Reaction] takes events from a
// queue of its own, one at a time: receive → each effect → ack, or the ack first, or
// none of its own ([AckMode]).
//
// What is left behind when a reaction dies
//
//	                               late          read         auto
//	events here, not yet begun     again         again        lost
//	one begun, nothing done yet    again         lost         lost
//	the same, all done             again: twice  once         once
//
// Telling a person is what must not be done twice, and it can go under a record: a
// claim for good has the gap of lesson 4 between record and send, a lease closes it.
// Deleting a pass comes to the same however often it is done ([Effect]).
//
// # In production
//
// All of this is taken ready-made: super streams with a single active
// consumer from RabbitMQ 3.11 on, or Kafka, whose group protocol is the same idea. This
// one is made to be seen.
package passes
