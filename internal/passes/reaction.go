package passes

import (
	"context"
	"fmt"
	"os"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
)

// AckMode is when a reaction acks, and so what becomes of an event when it dies.
type AckMode string

const (
	AckLate AckMode = "late" // when all is done: a crash has it handed over again
	AckRead AckMode = "read" // before anything is done: a crash loses it
	AckAuto AckMode = "auto" // the broker takes it for acked when it is written: a crash loses all that is here
)

// ReactionConfig is what a reaction is made of. All is required but what says otherwise.
type ReactionConfig struct {
	Name     string // the source of its events
	Queue    string // full name
	Prefetch int
	Ack      AckMode
	Effects  []Effect // what it does, in this order

	// Records remember whom was told what, so that a redelivery tells nobody again; nil:
	// nothing does. Leased makes a record a lease until it is done, as for a worker.
	Records   *idem.Store
	Retention time.Duration // of these records
	Leased    bool

	Open    func(context.Context) (*broker.Conn, error)
	Emit    func(event.Event)
	Backoff time.Duration // before what failed is given back

	CrashPoints bool // lets events arm crash points
	Die         func()
	Marks       *lab.Marks // as a member's
}

// A Reaction takes events of expired passes from a queue, one at a time, and does what
// it has to do about each.
type Reaction struct {
	ReactionConfig
	consumer *broker.Consumer
}

// NewReaction returns a reaction. It does nothing before [Reaction.Run].
func NewReaction(cfg ReactionConfig) *Reaction { return &Reaction{ReactionConfig: cfg} }

// Run takes events until ctx ends, finishes what is in hand, and returns nil. An error
// says that it can take no more: whoever supervises it starts it again.
func (r *Reaction) Run(ctx context.Context) error {
	conn, err := r.Open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if r.consumer, err = conn.Consume(ctx, r.Queue, r.Prefetch, r.Ack == AckAuto); err != nil {
		return err
	}
	defer r.consumer.Close()
	r.say(event.Event{Kind: event.Ready, State: "ack " + string(r.Ack)})
	for {
		d, err := r.consumer.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = (&reacting{Reaction: r, d: d}).run(ctx)
		}
		if err != nil {
			return err
		}
	}
}

func (r *Reaction) say(e event.Event) {
	e.Time, e.Source, e.PID, e.Queue = time.Now(), r.Name, os.Getpid(), r.Queue
	r.Emit(e)
}

// A reacting is what becomes of one delivery.
type reacting struct {
	*Reaction
	d     *notify.Delivery
	x     Expired
	armed lab.Trap
}

// run sees a delivery to its end. An error means that it can't be settled.
func (h *reacting) run(ctx context.Context) error {
	whole := context.WithoutCancel(ctx) // what is in hand is finished
	if h.Ack == AckRead {
		if err := h.consumer.AckNow(whole, h.d); err != nil {
			return err
		}
	}
	var err error
	if h.x, err = Decode(h.d.Body); err != nil {
		h.note("passed over, it is no event of a pass: " + err.Error())
		return h.settle()
	}
	h.arm()
	h.say(event.Event{Kind: event.Received, Redelivered: h.d.Redelivered})
	if h.Ack != AckLate {
		h.say(event.Event{Kind: event.Acked, Detail: true})
	}
	h.crash(AfterReceive)
	for _, effect := range h.Effects {
		if err := h.do(whole, effect); err != nil {
			return h.failed(ctx, err)
		}
	}
	h.crash(BeforeAck)
	return h.settle()
}

// settle acks what is not acked yet.
func (h *reacting) settle() error {
	if h.Ack != AckLate {
		return nil
	}
	if err := h.consumer.Ack(h.d); err != nil {
		return err
	}
	h.say(event.Event{Kind: event.Acked, Detail: true})
	return nil
}

// failed gives the delivery back after a while, if it still can.
func (h *reacting) failed(ctx context.Context, err error) error {
	if h.Ack != AckLate {
		h.note("not tried again, it was acked before: " + err.Error())
		return nil
	}
	h.say(event.Event{Kind: event.Retry, BackoffMS: h.Backoff.Milliseconds(), Reason: err.Error()})
	pause(ctx, h.Backoff)
	return h.consumer.Back(h.d)
}

// do does one thing, if it is to be remembered under a record of its own.
func (h *reacting) do(ctx context.Context, effect Effect) error {
	if h.Records == nil || effect.Channel == "" {
		return h.act(ctx, effect)
	}
	claim := h.Records.Claim(h.x.Notification(), effect.Channel, h.Leased)
	verdict, found, err := claim.Try(ctx)
	if err != nil {
		return err
	}
	about := event.Event{Channel: string(effect.Channel), Key: claim.Key(), State: string(claim.State()), TTLMS: claim.TTL().Milliseconds()}
	switch verdict {
	case idem.Acquired:
		about.Kind = event.Claimed
	case idem.Recovered:
		about.Kind = event.ClaimRecovered
	case idem.Duplicate:
		about.Kind, about.State = event.DuplicateDropped, string(found.State)
	case idem.Conflict:
		about.Kind = event.Conflict
	case idem.Busy:
		return fmt.Errorf("%s is another one's for now", claim.Key())
	}
	h.say(about)
	if verdict != idem.Acquired && verdict != idem.Recovered {
		return nil
	}
	h.crash(AfterClaim)
	if err := h.act(ctx, effect); err != nil {
		_, released := claim.Release(ctx)
		if released != nil {
			h.note("its record stays: " + released.Error())
		}
		return err
	}
	if !h.Leased {
		return nil
	}
	if _, err := claim.Complete(ctx); err != nil {
		about.Kind, about.Reason = event.Unrecorded, err.Error()
		h.say(about)
		return nil
	}
	about.Kind, about.State, about.TTLMS = event.Done, string(idem.Done), h.Retention.Milliseconds()
	h.say(about)
	return nil
}

func (h *reacting) act(ctx context.Context, effect Effect) error {
	e, err := effect.Do(ctx, h.x)
	if err == nil {
		h.say(e)
	}
	return err
}

func (h *reacting) arm() {
	if h.d.Crash == "" || !h.CrashPoints {
		return
	}
	armed, err := lab.ParseArming(h.d.Crash, ReactionPoints())
	if err == nil && armed.Stop {
		armed, err = lab.Arming{}, fmt.Errorf("crash point %s: a reaction dies there or goes on, it does not stop", armed.Point)
	}
	if err != nil {
		h.note(err.Error())
	}
	h.armed = lab.Trap{Arming: armed, Marks: h.Marks, ID: h.x.ID, Who: h.Name}
}

func (h *reacting) crash(p Point) {
	if !h.armed.Fires(p, h.note) {
		return
	}
	h.say(event.Event{Kind: event.Crash, Point: string(p)})
	h.Die()
}

func (h *reacting) say(e event.Event) {
	e.ID, e.User, e.Pass = h.x.ID, h.x.User, h.x.Pass
	h.Reaction.say(e)
}

func (h *reacting) note(text string) { h.say(event.Event{Kind: event.Note, Reason: text}) }
