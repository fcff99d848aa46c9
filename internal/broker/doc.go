// Package broker is the lab's side of RabbitMQ, and the only room that speaks
// AMQP: what the queues are called and how they are made, how a message is
// published so that its fate is known, how deliveries are taken and settled.
//
// # Queues
//
// Every channel has a work queue, one retry queue for each delay, and dead
// letters ([Names]). Queues are durable, quorum by default. RabbitMQ moves
// messages between them with its own confirms (dead-lettering at-least-once,
// which falls back in silence unless x-overflow is reject-publish).
//
//	notify.push             work; after 100 deliveries to push.dlq, a last resort
//	notify.push.retry.500ms after its TTL back to notify.push; nobody consumes it
//	push.dlq                dead letters; can be looked at any number of times
//
// Reactions have queues of their own ([Subscription]), which get a copy each of what is
// published to an exchange; the log's partitions are streams ([Stream]), which never
// expire: whoever makes one for a while has to delete it.
//
// # Publishing
//
// A [Publisher] keeps many messages in flight and tells of each what became of
// it ([Fate]). An unroutable message is returned and confirmed, and the two
// arrive by different ways: whoever sees a confirm takes in all returns that
// have arrived before believing it. A confirm that does not come in time says
// nothing: the message may be there or not. It keeps its place in the window
// until it is answered, so that there is always room for its return; while the
// broker blocks publishers the window fills, and then nothing more is started.
//
// # Sessions
//
// A [Session] is one connection to take and settle deliveries, and a second
// one for copies: when the broker blocks publishers (an alarm), acks must still
// get through. Whatever goes wrong on either ends the session and cuts both, and
// the broker hands all that was not acked to somebody else; nothing of an ended
// session is ever settled on a later one, since tags start anew.
//
// Acks are written together: what is settled in a run from the lowest open delivery
// goes by one, and what lies beyond an open one is held for some milliseconds, in
// which most such holes close. All who have to know that the broker has theirs share a
// round trip.
//
// The orderly end is: hand over no more, settle what is in hand, write the last
// acks, cancel the consumer, give back the rest, close. The cancel comes after
// the acks because it is the one round trip that a quorum queue answers itself,
// when it has taken all acks that were written before.
//
// What is left behind when the process dies
//
//	after a delivery arrived, before its ack was written:  the message, redelivered,
//	                                                       settled or not
//	after the ack was written, before it arrived:          the message, redelivered
//	after a copy was published, before its confirm:        the message, and perhaps a copy
//	after the confirm, before the ack:                     the message, and its copy
//	after the ack:                                         the copy
//
// so never nothing, and sometimes both. A copy is therefore always confirmed,
// and not returned, before its original is acked.
package broker
