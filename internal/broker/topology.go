package broker

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/notify"
)

// QueueType is how RabbitMQ keeps a queue.
type QueueType string

// Quorum queues count deliveries, so they have a last resort against poison;
// classic ones neither count nor confirm what they dead-letter, and are about
// half as fast on the machine where this was measured.
const (
	Quorum  QueueType = "quorum"
	Classic QueueType = "classic"
)

const (
	// DeliveryLimit is how often a quorum work queue hands a message over
	// before it parks it by itself. It is the last resort, far above what
	// the workers count, because a crash raises the broker's count for
	// everything that was prefetched.
	DeliveryLimit = 100

	// noDeliveryLimit lets dead letters be looked at for ever. Left unset,
	// RabbitMQ 4.0 drops a message after 20 looks; -1 makes 3.10 drop it at
	// once (both measured).
	noDeliveryLimit = 2147483647
)

// Topology is the queues of some channels, as a value.
type Topology struct {
	Names
	Channels []notify.Channel
	Delays   []time.Duration // of the retry queues; none: work and dead letters alone
	Type     QueueType
	// Expires, if not 0, lets the broker delete queues that nobody used or
	// declared for that long: a scenario's, should it be killed.
	Expires time.Duration
}

// A queue that exists or should.
type queue struct {
	name string
	args amqp.Table
}

// queues lists the topology's queues, targets of dead-lettering first.
func (t Topology) queues() []queue {
	var all []queue
	for _, c := range t.Channels {
		all = append(all, queue{t.DeadLetters(c), t.deadLetterArgs()}, queue{t.Work(c), t.workArgs(c)})
		seen := map[time.Duration]bool{}
		for _, delay := range t.Delays {
			if !seen[delay] {
				seen[delay] = true
				all = append(all, queue{t.Retry(c, delay), t.retryArgs(c, delay)})
			}
		}
	}
	return all
}

// QueueNames lists the names of the topology's queues.
func (t Topology) QueueNames() []string {
	var names []string
	for _, q := range t.queues() {
		names = append(names, q.name)
	}
	return names
}

func (t Topology) base() amqp.Table {
	args := amqp.Table{"x-queue-type": string(t.Type)}
	if t.Expires > 0 {
		args["x-expires"] = t.Expires.Milliseconds()
	}
	return args
}

// deadLetterTo makes the broker move messages to another queue, in the safest
// way that the queue's type has.
func (t Topology) deadLetterTo(args amqp.Table, queue string) {
	args["x-dead-letter-exchange"] = ""
	args["x-dead-letter-routing-key"] = queue
	if t.Type == Quorum {
		args["x-dead-letter-strategy"] = "at-least-once"
		args["x-overflow"] = "reject-publish" // without it the strategy falls back to at-most-once
	}
}

func (t Topology) workArgs(c notify.Channel) amqp.Table {
	args := t.base()
	t.deadLetterTo(args, t.DeadLetters(c))
	if t.Type == Quorum {
		args["x-delivery-limit"] = int64(DeliveryLimit)
	}
	return args
}

func (t Topology) retryArgs(c notify.Channel, delay time.Duration) amqp.Table {
	args := t.base()
	t.deadLetterTo(args, t.Work(c))
	args["x-message-ttl"] = delay.Milliseconds()
	return args
}

func (t Topology) deadLetterArgs() amqp.Table {
	args := t.base()
	if t.Type == Quorum {
		args["x-delivery-limit"] = int64(noDeliveryLimit)
	}
	return args
}
