// Package notify has the words that every other room shares: a
// [Notification], the [Channel] it goes out on, the form it has in a queue
// ([Encode], [Decode]), the key of its idempotency record ([Key]), one
// hand-over of it by the broker ([Delivery]), and what a provider can answer
// ([Sender], [Result]).
//
// It imports nothing of the project and talks to nobody.
package notify
