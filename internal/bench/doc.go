// Package bench measures the lab: how fast it publishes and consumes beside a bare
// client of the same broker, how long a message waits, how soon a killed worker's
// message is sent by another, and how much memory a backlog takes.
//
// # What a figure is worth
//
// A rate says more of the machine than of the program. So everything runs side by
// side on the same servers with messages of the same size, in several rounds, and
// what counts is the ratio to the bare client: the median of the rounds against the
// median of the bare runs, of which one opens each round and one ends it.
//
// A bare client that does nothing with a message says what the broker can do. What a
// worker adds shows beside one that does as much: hands messages to as many handlers,
// which ask the same of Redis.
//
// A consume run begins with a queue that is filled and confirmed, and ends when all
// that was in it is acked and the queue is empty.
package bench
