// Package lab has what belongs to the lab and not to the protocol that it
// teaches, all of it in Redis: the settings that people switch while workers
// run, the marks that let a crash point fire once and not for ever, and what those
// who run write down for those who look.
//
// # What is written down
//
//	lab:journal            a capped stream of events, by [Journal]: all workers' and
//	                       the supervisor's, one or more in an entry
//	lab:journal-marks      how many they were, and where: for its cap
//	lab:queues             queue names and types, by whoever declares them
//	lab:workers, lab:worker:<slot>
//	                       who lives, with how much in hand: for three seconds
//	lab:turn:<channel>     who is at the dead letters
//	lab:request:<key>, lab:request-busy:<key>, lab:queued:<id>
//	                       what was asked for over HTTP, by [Requests]
//
// and in no namespace, since nobody knows that of a run that was killed:
//
//	notifylab:streams      the streams of running scenarios, by [Streams]: what is
//	                       overdue is deleted by the next one
//
// No send depends on any of it: a journal that can't be written waits, and then
// forgets its oldest; a note that is missing makes a list shorter. What a worker had
// journalled before it was killed is there; what it was about to write is not,
// except at a crash point, which waits for the journal.
//
// # Requests
//
// A key is open or done, with the body's hash and the notification's id. Who finds
// it open takes a second key that only one can have, looks again, and publishes.
//
//	dies in between               the second key goes after 15 s; whoever comes then
//	                              publishes the same id again
//	takes longer than 15 s        the same: a second publish of one id, which
//	                              workers with a record drop
//	ends, and Redis is away       the same
package lab
