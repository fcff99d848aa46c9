package notify

import (
	"errors"
	"time"
)

// A Delivery is one hand-over of a message by the broker. It is settled once:
// acked (perhaps after a copy was made of it), or given back.
type Delivery struct {
	// Tag numbers the deliveries of one session, from 1.
	Tag  uint64
	Body []byte

	// Redelivered is the broker's word that it handed this message over
	// before. It is shown and never decided by: a copy, and a message that a
	// producer published twice, come without it.
	Redelivered bool
	// Count is how often the broker has handed the message over before, as
	// far as it counts: quorum queues do; for others it is 1 if Redelivered.
	Count int
	// Counted says whether the broker counts at all.
	Counted bool

	// Attempts is the number of sends tried already and refused, from the
	// message's own header: it survives crashes and restarts.
	Attempts int
	// Crash arms a crash point: POINT[,stop][,always]. Empty: none.
	Crash string

	// Origin is the message in the broker's own form. Whoever makes a copy
	// takes the properties and headers from it; nobody else looks.
	Origin any
}

// A Failure is why a copy of a delivery is made: what is written into its
// headers for whoever finds it among the dead letters.
type Failure struct {
	Reason   string    // one word: refused, malformed, conflict, crashed, unknown
	Error    string    // what the last attempt said
	Attempts int       // sends tried so far
	At       time.Time // when it was decided
	Worker   string
}

// What can become of a copy that was not confirmed although the session lives.
// The original is still there and unsettled, so the copy can be tried again.
var (
	ErrReturned = errors.New("returned, no such queue")
	ErrNacked   = errors.New("refused by the broker")
	// ErrBlocked: the broker holds publishers back (an alarm). The copy may be on
	// its way; to try again is to go on waiting for that very one.
	ErrBlocked = errors.New("the broker blocks publishers")
)

// ErrSessionOver says that the session of a delivery has ended: the broker has
// taken the message back and hands it over again.
var ErrSessionOver = errors.New("session over")
