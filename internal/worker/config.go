package worker

import (
	"context"
	"fmt"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
)

// A Session is a connection to the broker that gives deliveries and settles
// them, until it is over.
type Session interface {
	// Deliveries is closed after Cancel, or when the session is over.
	Deliveries() <-chan *notify.Delivery
	Over() <-chan struct{}
	Err() error // why it is over

	Ack(*notify.Delivery)                           // soon
	AckNow(context.Context, *notify.Delivery) error // nil: the broker has it
	Check(context.Context) error                    // one round trip: does it live?

	// Retry and Park publish a copy; nil: it is confirmed. After
	// notify.ErrReturned and notify.ErrNacked there is none; after
	// notify.ErrBlocked the same call again goes on with it.
	Retry(ctx context.Context, d *notify.Delivery, delay time.Duration, f notify.Failure) error
	Park(context.Context, *notify.Delivery, notify.Failure) error
	Unblocked() <-chan struct{} // closed while nothing holds copies back

	Cancel(context.Context) error // no more deliveries
	Close(context.Context) int    // gives back what is unsettled: how many
}

// Config is what a worker is made of. All is required but what says otherwise.
type Config struct {
	Channel notify.Channel
	Name    string // push-worker-1: the source of its events
	Slot    int
	// Queue and DeadLetters are the full names of the work queue and of the
	// queue of dead letters, for events.
	Queue, DeadLetters string

	// Open starts a session. An error of the first call ends the worker; later
	// ones are tried again.
	Open   func(context.Context) (Session, error)
	Sender notify.Sender
	// Records is nil for a worker without Redis, which then neither counts
	// crashes nor claims.
	Records *idem.Store
	// Settings is asked for each delivery. It answers, or fails, within twice
	// idem.Timeout, whatever its context.
	Settings func(context.Context) (event.Settings, error)
	// Marks makes crash points fire once; nil: they don't fire, but for those
	// that fire always.
	Marks *lab.Marks
	Emit  func(event.Event)
	// Flush returns when all that was emitted is written where it is to outlive
	// the process, or when ctx ends. It is called before Die; nil: nothing to do.
	Flush func(context.Context) error

	// Die ends the process at once, as kill -9 does, and does not return.
	Die func()
	// Suspend stops the process, as kill -STOP does, and returns when it has
	// been continued.
	Suspend func()
	// CrashPoints lets messages arm crash points.
	CrashPoints bool

	Concurrency int
	Attempts    int             // sends before a message is parked
	Backoff     []time.Duration // before the second attempt, the third …; the last one repeats
	SendTimeout time.Duration
	Retention   time.Duration // of done, as events show it
	MaxCrashes  int
	AckEarly    bool // ack before anything else: a crash loses what is in hand
	ParkUnknown bool // park what may have been accepted, and do not try again

	Without Guard // which is left out; empty, as it should be: none
}

// delay returns how long a message waits after its n-th attempt.
func (c Config) delay(attempt int) time.Duration {
	return c.Backoff[min(attempt, len(c.Backoff))-1]
}

// MinLease returns the shortest lease with which a send can be made under it: it
// has to hold the claim, one send, and the record of it.
func MinLease(sendTimeout time.Duration) time.Duration {
	return sendTimeout + 2*idem.Timeout + time.Second
}

// CheckLease returns nil if lease is long enough for sendTimeout, else an error
// that says what would do.
func CheckLease(lease, sendTimeout time.Duration) error {
	if least := MinLease(sendTimeout); lease < least {
		return fmt.Errorf("a lease of %v is too short for a send time-out of %v: at least %v (the send, two Redis time-outs of %v, and 1s)",
			lease, sendTimeout, least, idem.Timeout)
	}
	return nil
}
