package api

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
	"unicode/utf8"

	"notifylab/internal/broker"
	"notifylab/internal/notify"
)

// A Letter is a dead letter.
type Letter struct {
	Kind     string   `json:"kind"` // dead_letter
	Queue    string   `json:"queue"`
	ID       string   `json:"id"`
	User     string   `json:"user"`
	Reason   string   `json:"reason"`
	ByBroker bool     `json:"by_broker"` // the broker parked it by itself
	Attempts int      `json:"attempts"`
	First    string   `json:"first_error"`
	Last     string   `json:"last_error"`
	Time     string   `json:"time"` // RFC 3339, UTC; empty: not known
	Worker   string   `json:"worker"`
	Bytes    int      `json:"bytes"`
	Body     string   `json:"body"`
	Base64   []byte   `json:"body_base64,omitempty"` // the true bytes of a body that is no text
	History  []string `json:"history"`               // a line for each copy, oldest first

	At           time.Time           `json:"-"`
	Notification notify.Notification `json:"-"` // zero if the body is none
}

// A Filter chooses among dead letters; what is empty chooses all.
type Filter struct{ ID, User, Reason string }

func (f Filter) match(l Letter) bool {
	return (f.ID == "" || f.ID == l.ID) && (f.User == "" || f.User == l.User) && (f.Reason == "" || f.Reason == l.Reason)
}

func (d Desk) letter(c notify.Channel, m broker.DeadLetter) Letter {
	n, _ := m.Notification()
	l := Letter{
		Kind: "dead_letter", Queue: d.names().DeadLetters(c), ID: n.ID, User: n.User,
		Reason: m.Reason, ByBroker: m.ByBroker, Attempts: m.Attempts, First: m.First, Last: m.Last, Worker: m.Worker,
		Bytes: len(m.Body), Body: string(m.Body), History: m.History, At: m.At, Notification: n,
	}
	if !utf8.Valid(m.Body) {
		l.Base64 = m.Body
	}
	if l.ID == "" {
		l.ID = m.ID
	}
	if l.History == nil {
		l.History = []string{}
	}
	if !m.At.IsZero() {
		l.Time = m.At.UTC().Format(time.RFC3339Nano)
	}
	return l
}

// A TurnError says who is at the dead letters.
type TurnError struct {
	Channel notify.Channel
	Who     string // empty: they did not say
}

func (e *TurnError) Error() string {
	who := e.Who
	if who == "" {
		who = "somebody else"
	}
	return fmt.Sprintf("the dead letters of %s are taken: %s", e.Channel, who)
}

// withTurn calls do when nobody else is at a channel's dead letters. Who waits in
// vain for five seconds is told who is, by a [TurnError]. The desk's connection must
// be used for nothing else meanwhile.
func (d Desk) withTurn(ctx context.Context, c notify.Channel, do func(*broker.DeadLetters) error) (err error) {
	turn, err := d.Broker.DeadLetters(ctx, d.names(), c)
	if errors.Is(err, broker.ErrTurn) {
		return &TurnError{c, d.notes().WhoseTurn(ctx, string(c))}
	}
	if err != nil {
		return err
	}
	turn.Dial = d.Dial
	defer func() { err = errors.Join(err, turn.Close()) }()
	host, _ := os.Hostname()
	// A comfort for those who wait; the turn itself is the broker's.
	_ = d.notes().Turn(ctx, string(c), fmt.Sprintf("%s, pid %d on %s, since %s", d.Who, os.Getpid(), host, time.Now().Format(time.TimeOnly)))
	defer func() {
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = d.notes().TurnOver(short, string(c))
	}()
	return do(turn)
}

// Letters returns the dead letters of a channel that match, oldest first, up to
// limit, and how many match in all. Looking changes nothing.
func (d Desk) Letters(ctx context.Context, c notify.Channel, f Filter, limit int) (letters []Letter, all int, err error) {
	letters = []Letter{}
	err = d.withTurn(ctx, c, func(turn *broker.DeadLetters) error {
		return turn.Each(ctx, func(m broker.DeadLetter) (broker.Choice, error) {
			l := d.letter(c, m)
			if f.match(l) {
				if all++; all <= limit {
					letters = append(letters, l)
				}
			}
			return broker.Leave, nil
		}, nil)
	})
	return letters, all, err
}

// Purge deletes the dead letters that are there at the start and match, and returns
// how many, after an error, too.
func (d Desk) Purge(ctx context.Context, c notify.Channel, f Filter) (n int, err error) {
	err = d.withTurn(ctx, c, func(turn *broker.DeadLetters) error {
		return turn.Each(ctx, func(m broker.DeadLetter) (broker.Choice, error) {
			if ctx.Err() != nil {
				return broker.Leave, context.Cause(ctx)
			}
			if f.match(d.letter(c, m)) {
				return broker.Drop, nil
			}
			return broker.Leave, nil
		}, func(broker.DeadLetter) { n++ })
	})
	return n, err
}
