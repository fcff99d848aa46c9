package broker

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/notify"
)

// A DeadLetter is a parked message with what is known of how it came there.
type DeadLetter struct {
	ID       string // its message id; ours put the notification's there
	Body     []byte
	Reason   string    // refused, unknown, malformed, conflict, crashed; or the broker's own word
	ByBroker bool      // the broker parked it, by itself
	Attempts int       // sends tried
	First    string    // what the first attempt said
	Last     string    // what the last attempt said
	At       time.Time // when it was parked; zero: not known
	Worker   string    // by whom
	History  []string  // a line for each copy, oldest first
}

// Notification returns what the message is about, if it can be read.
func (d DeadLetter) Notification() (notify.Notification, bool) {
	n, err := notify.Decode(d.Body)
	return n, err == nil
}

// fresh returns the copy that a replay publishes.
func fresh(m amqp.Delivery) amqp.Publishing {
	p := clean(m)
	for _, header := range []string{headerAttempts, headerCrash, headerFirst, headerLast, headerReason, headerTime, headerWorker} {
		delete(p.Headers, header)
	}
	old, _ := p.Headers[headerHistory].([]any)
	history := append([]any(nil), old...)
	if reason, at := death(m.Headers); reason != "" { // else its word would be gone
		history = append(history, at.UTC().Format(time.RFC3339Nano)+" RabbitMQ "+reason)
	}
	history = append(history, time.Now().UTC().Format(time.RFC3339Nano)+" replayed")
	p.Headers[headerHistory] = history[max(0, len(history)-maxHistory):]
	return p
}

func deadLetter(m amqp.Delivery) DeadLetter {
	text := func(h string) string { s, _ := m.Headers[h].(string); return s }
	d := DeadLetter{ID: m.MessageId, Body: m.Body, Reason: text(headerReason), First: text(headerFirst), Last: text(headerLast), Worker: text(headerWorker)}
	d.Attempts, _ = integer(m.Headers[headerAttempts])
	d.At, _ = time.Parse(time.RFC3339Nano, text(headerTime))
	lines, _ := m.Headers[headerHistory].([]any)
	for _, l := range lines {
		if s, ok := l.(string); ok {
			d.History = append(d.History, s)
		}
	}
	// A copy of ours carries nothing of the broker's, so its word is the last.
	if reason, at := death(m.Headers); reason != "" {
		d.Reason, d.ByBroker, d.At, d.Worker = reason, true, at, ""
	}
	return d
}

// death is why and when the broker last moved a message by itself: the newest entry
// of x-death. x-first-death-reason would be that of an earlier way through a retry
// queue: expired.
func death(h amqp.Table) (reason string, at time.Time) {
	deaths, _ := h["x-death"].([]any)
	if len(deaths) > 0 {
		newest, _ := deaths[0].(amqp.Table)
		reason, _ = newest["reason"].(string)
		at, _ = newest["time"].(time.Time)
	}
	if reason == "" {
		reason, _ = h["x-first-death-reason"].(string)
	}
	return reason, at
}
