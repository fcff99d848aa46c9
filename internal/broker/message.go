package broker

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/notify"
)

// Message is what a producer publishes.
type Message struct {
	Exchange string // see [Conn.DeclareExchange]; empty: it goes into Queue alone
	Queue    string
	ID       string
	Body     []byte
	Crash    string // arms a crash point in the worker; empty: none
}

// NewMessage returns n as the message for channel c.
func NewMessage(names Names, c notify.Channel, n notify.Notification, crash string) Message {
	return Message{Queue: names.Work(c), ID: n.ID, Body: notify.Encode(n), Crash: crash}
}

func (m Message) publishing() amqp.Publishing {
	p := amqp.Publishing{MessageId: m.ID, ContentType: "application/json", AppId: "notifylab", Body: m.Body}
	if m.Crash != "" {
		p.Headers = amqp.Table{headerCrash: m.Crash}
	}
	return p
}
