package broker

import (
	"errors"
	"fmt"
	"net"
	"regexp"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ErrURL says that a URL does not parse. The URL itself is not in the error: it
// may hold a password.
var ErrURL = errors.New("not an AMQP URL (amqp://user:password@host:5672/vhost, or several with commas between)")

// ErrAccessRefused says that the broker did not take the user and password, or
// died while it looked at them: the client library reports both alike
// (measured with amqp091-go 1.16).
var ErrAccessRefused = errors.New("ACCESS_REFUSED: user or password not accepted")

// ErrNoVhost says that the broker refused the virtual host.
var ErrNoVhost = errors.New("NOT_ALLOWED")

// ErrTLS says that something answered with which there is no TLS connection: its
// certificate is not trusted, or it does not speak TLS.
var ErrTLS = errors.New("no trusted TLS connection")

// An UnreachableError says that nothing answered.
type UnreachableError struct {
	Addr string // host:port, of several nodes with commas between
	Err  error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("RabbitMQ does not answer at %s: %v", e.Addr, rootCause(e.Err))
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// A ConflictError says that a queue exists with other arguments than it should
// have. Nothing was changed.
type ConflictError struct {
	Queue, Argument string
	Want, Got       string // Want is ours, Got is the queue's
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("queue %s exists with another %s: %s there, %s wanted", e.Queue, e.Argument, e.Got, e.Want)
}

// inequivalent matches what RabbitMQ says to a declare with other arguments:
// inequivalent arg 'x' for queue 'q' in vhost '/': received … but current is …
var inequivalent = regexp.MustCompile(`inequivalent arg '([^']+)' for queue '([^']*)'.*: received (.+) but current is (.+?)(?:, class.*)?$`)

var quotes = regexp.MustCompile(`'([^']*)'`)

// conflict turns the broker's refusal of a declare into a [ConflictError].
func conflict(queue string, err error) error {
	var e *amqp.Error
	if !errors.As(err, &e) || e.Code != amqp.PreconditionFailed {
		return fmt.Errorf("declare %s: %w", queue, err)
	}
	m := inequivalent.FindStringSubmatch(e.Reason)
	if m == nil {
		return fmt.Errorf("declare %s: %w", queue, err)
	}
	return &ConflictError{Queue: m[2], Argument: m[1], Want: value(m[3]), Got: value(m[4])}
}

// value takes a value out of the broker's wording: the value '5' of type
// 'signedint' is 5, none is none, an empty one is "".
func value(s string) string {
	m := quotes.FindStringSubmatch(s)
	switch {
	case m == nil:
		return s
	case m[1] == "":
		return `""`
	}
	return m[1]
}

// rootCause strips the addresses and operation names that net and the client
// library put around the reason: connection refused.
func rootCause(err error) error {
	var nodes silence
	if errors.As(err, &nodes) {
		return nodes
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		err = op.Err
	}
	var outer interface{ Unwrap() error }
	for errors.As(err, &outer) && outer.Unwrap() != nil {
		err = outer.Unwrap()
	}
	var e *amqp.Error
	if errors.As(err, &e) {
		return errors.New(e.Reason)
	}
	return err
}
