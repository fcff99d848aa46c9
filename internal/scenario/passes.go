package scenario

import (
	"context"

	"notifylab/internal/notify"
)

// QueueToLog is the second chapter: what a queue gives, what it can't, and why a log
// with partitions and consumer groups follows. Passes expire; the reactions are notify
// and delete-pass.
const QueueToLog = "from queue to log"

// fromQueueToLog returns the chapter's scenarios, in the order of the story.
func fromQueueToLog() []Scenario {
	var all []Scenario
	for _, s := range []Scenario{
		directCall(), fifo(), ackTiming(), competing(), idempotentHandler(), destructiveRead(),
		twoCursors(), partitions(), consumerGroup(), commitOrder(), rebalance(),
	} {
		s.Chapter, s.Any, s.Unset = QueueToLog, true, true
		all = append(all, s)
	}
	return all
}

// inProduction ends the lessons about the log.
const inProduction = `

In production this is taken ready-made: super streams with a single active consumer
(RabbitMQ 3.11 and later), or Kafka, whose consumer groups are the same idea. Here its
parts are plain keys and queues, so that each can be seen.`

// onPasses makes a play of one that needs a [passStage].
func onPasses(play func(context.Context, *passStage) error) func(context.Context, *stage) error {
	return func(ctx context.Context, s *stage) error { return play(ctx, newPassStage(s)) }
}

// Groups and reactions have the same names: what they do.
const (
	reactNotify = "notify"
	reactEmail  = "email"
	reactDelete = "delete-pass"
)

// told is where the reaction notify tells a person.
const told = string(notify.Push)
