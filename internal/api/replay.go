package api

import (
	"context"

	"notifylab/internal/broker"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
)

// A Replay is what a replay came to.
type Replay struct {
	Kind     string `json:"kind"` // replayed
	Replayed int    `json:"replayed"`
	Already  int    `json:"already_sent"` // their records are done: not published, they stay
	Unknown  int    `json:"unknown"`      // claimed: nobody knows, they stay
	Lost     int    `json:"lost"`         // 0: what is not confirmed stays
	DryRun   bool   `json:"dry_run"`
}

// What becomes of one dead letter in a replay.
const (
	WasReplayed = "replayed"
	WouldReplay = "would be replayed"
	WasSent     = "already sent, stays"
	WasAnother  = "already sent under this id, with another text; stays"
	IsUnknown   = "claimed: nobody knows whether it was sent, stays"
)

// ReplayOptions say which dead letters to replay, and how.
type ReplayOptions struct {
	Filter
	DryRun bool // say what would be done, and do nothing
	Force  bool // replay what is claimed, too: it may have been sent
	// Tell, if not nil, hears what becomes of each that matches.
	Tell func(l Letter, what string)
}

// Replay puts the dead letters that are there at the start and match back into the
// work queue, with fresh attempts. The record is read first. A kill leaves a message
// in both places, never in none, and a second replay completes the first. After an
// error it says what was done before; its kind is "" if it was nobody's turn.
func (d Desk) Replay(ctx context.Context, c notify.Channel, o ReplayOptions) (sum Replay, err error) {
	if o.Tell == nil {
		o.Tell = func(Letter, string) {}
	}
	err = d.withTurn(ctx, c, func(turn *broker.DeadLetters) error {
		sum = Replay{Kind: "replayed", DryRun: o.DryRun}
		return turn.Each(ctx, func(m broker.DeadLetter) (broker.Choice, error) {
			l := d.letter(c, m)
			if !o.match(l) {
				return broker.Leave, nil
			}
			return d.chooseReplay(ctx, c, l, o, &sum)
		}, func(m broker.DeadLetter) {
			sum.Replayed++
			o.Tell(d.letter(c, m), WasReplayed)
		})
	})
	return sum, err
}

func (d Desk) chooseReplay(ctx context.Context, c notify.Channel, l Letter, o ReplayOptions, sum *Replay) (broker.Choice, error) {
	if ctx.Err() != nil {
		return broker.Leave, context.Cause(ctx)
	}
	if l.Notification.ID != "" {
		r, _, found, err := idem.Look(ctx, d.Redis, d.Namespace, l.Notification, c)
		if err != nil {
			return broker.Leave, err
		}
		switch {
		case found && r.State == idem.Done:
			sum.Already++
			what := WasSent
			if r.Fingerprint != notify.Fingerprint(l.Notification) {
				what = WasAnother
			}
			o.Tell(l, what)
			return broker.Leave, nil
		case found && r.State == idem.Claimed && !o.Force:
			sum.Unknown++
			o.Tell(l, IsUnknown)
			return broker.Leave, nil
		case found && r.State == idem.Claimed && !o.DryRun:
			// The worker would drop it against this very record.
			if err := idem.Drop(ctx, d.Redis, d.Namespace, l.Notification, c, r); err != nil {
				return broker.Leave, err
			}
		}
	}
	if o.DryRun {
		sum.Replayed++
		o.Tell(l, WouldReplay)
		return broker.Leave, nil
	}
	return broker.Replay, nil
}
