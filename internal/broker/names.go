package broker

import (
	"time"

	"notifylab/internal/notify"
)

// Names makes the names of queues: all of them come from here.
type Names struct {
	notify.Namespace
}

// Work returns the name of the queue that c's workers consume.
func (n Names) Work(c notify.Channel) string { return n.Queue("notify." + string(c)) }

// Retry returns the name of the queue in which a refused message waits for
// delay before it comes back to the work queue.
func (n Names) Retry(c notify.Channel, delay time.Duration) string {
	return n.Queue("notify." + string(c) + ".retry." + delay.String())
}

// DeadLetters returns the name of the queue in which messages of c are parked.
func (n Names) DeadLetters(c notify.Channel) string { return n.Queue(string(c) + ".dlq") }
