// Package api is the producer over HTTP, and the desk at which the lab is looked at
// and changed: the commands and the HTTP answers are two renderings of the same
// objects.
//
// # What a 202 means
//
// POST /api/notify answers 202 only when every channel's message is confirmed by
// the broker and none was returned. Anything else is a 503 that says of each channel
// what became of it, with the notification's id: to post the same id again completes
// it, and what was there already is dropped by the workers as a duplicate (or, with
// idempotency off, is not: that is lesson 2).
//
// Queues are declared when the api connects, and once more after one was found to be
// gone: whoever posts the refused id again then completes it.
//
// A crash of the api between the first confirm and its answer leaves a message or
// two and no answer; whoever posts again with the same id, or the same
// Idempotency-Key, gets no second event.
//
// # Who waits for whom
//
// Requests share one connection to publish and one to look; whoever finds one gone
// joins the attempt to make another, so that with the broker away all are answered
// within the five seconds that one attempt may take. Looks, replays and purges of
// dead letters take turns by an exclusive queue, which is a connection's: each has a
// connection of its own.
package api
