package event

import (
	"encoding/json"
	"fmt"
	"time"
)

// Kind says what happened.
type Kind string

// Of a message on its way to the provider.
const (
	Queued           Kind = "queued"            // the broker has confirmed it
	Returned         Kind = "returned"          // there is no such queue
	Unconfirmed      Kind = "unconfirmed"       // nothing came back: it may be there or not
	Received         Kind = "received"          // a worker was handed it
	Claimed          Kind = "claimed"           // its record was written
	ClaimRecovered   Kind = "claim_recovered"   // a dead worker's claim was taken over
	DuplicateDropped Kind = "duplicate_dropped" // its record says that it was taken care of
	Conflict         Kind = "conflict"          // its record is about another text
	LeaseBusy        Kind = "lease_busy"        // a worker that may live has it
	LeaseLost        Kind = "lease_lost"        // too little of the lease is left to send
	Sent             Kind = "sent"              // the worker read the provider's acceptance
	Done             Kind = "done"              // the record says so now
	Unrecorded       Kind = "unrecorded"        // accepted, but the record does not say so
	Unknown          Kind = "unknown"           // sent, but no answer was read
	Retry            Kind = "retry"             // refused; a copy waits in a retry queue
	DeadLetter       Kind = "dead_letter"       // a copy was parked
	CopyWaiting      Kind = "copy_waiting"      // no copy could be made; the original waits
	Acked            Kind = "acked"             // the delivery was settled by an ack
	GivenBack        Kind = "given_back"        // the delivery went back to the queue
	Dropped          Kind = "dropped"           // the session ended; the broker has it back
)

// Of processes and servers.
const (
	Ready       Kind = "ready"       // a worker consumes
	Draining    Kind = "draining"    // a worker was told to stop, and finishes what is in hand
	Crash       Kind = "crash"       // a worker is about to kill itself
	Stopped     Kind = "stopped"     // a worker is about to stop itself
	Woke        Kind = "woke"        // it goes on
	Restart     Kind = "restart"     // a supervisor starts a worker again
	GaveUp      Kind = "gave_up"     // a supervisor won't
	Exited      Kind = "exited"      // a child ended because it was told to
	Log         Kind = "log"         // a line that a child wrote and that is no event
	Disconnect  Kind = "disconnect"  // a server went away
	Reconnected Kind = "reconnected" // it is back
	Note        Kind = "note"        // something that whoever watches should know
)

// Of the provider: its own words, on which verdicts rest.
const (
	Accepted      Kind = "accepted"
	AcceptedAgain Kind = "accepted_again" // twice: the failure
	Deduplicated  Kind = "deduplicated"   // its key was known: not done again
	Refused       Kind = "refused"
)

// An Event is one fact. Fields that do not apply are empty and left out of
// JSON. Durations are in milliseconds and say so in their names.
type Event struct {
	Time   time.Time `json:"time"`
	Kind   Kind      `json:"kind"`
	Source string    `json:"source,omitempty"` // who says so: push-worker-1, producer, provider
	PID    int       `json:"pid,omitempty"`

	ID      string `json:"id,omitempty"`
	Channel string `json:"channel,omitempty"`
	User    string `json:"user,omitempty"`
	Text    string `json:"text,omitempty"`
	Pass    string `json:"pass,omitempty"`
	Attempt int    `json:"attempt,omitempty"` // sends tried, this one included

	Queue       string `json:"queue,omitempty"`
	Redelivered bool   `json:"redelivered,omitempty"`
	Attempts    int    `json:"attempts,omitempty"` // how many there may be
	BackoffMS   int64  `json:"backoff_ms,omitempty"`
	Reason      string `json:"reason,omitempty"`
	Caller      int    `json:"caller,omitempty"` // the pid of who called the provider

	Key     string `json:"key,omitempty"`
	State   string `json:"state,omitempty"`  // claimed, pending, done
	TTLMS   int64  `json:"ttl_ms,omitempty"` // of the record in that state
	Owner   string `json:"owner,omitempty"`  // who holds a busy record
	Slot    int    `json:"slot,omitempty"`   // a worker's place
	Point   string `json:"point,omitempty"`  // the crash point
	Elapsed int64  `json:"elapsed_ms,omitempty"`

	Settings *Settings `json:"settings,omitempty"` // of a worker that is ready
	Messages int       `json:"messages,omitempty"` // that were given back
	Exit     string    `json:"exit,omitempty"`     // how a process ended: killed, exit 3
	Restarts int       `json:"restarts,omitempty"`
	WaitMS   int64     `json:"wait_ms,omitempty"` // until it is started again
	Line     string    `json:"line,omitempty"`    // of a log
	Detail   bool      `json:"detail,omitempty"`  // text shows it with -v only

	Membership  // of a consumer group's member
	*Assignment // nil if the event is about none
	*Position   // of a record in a log; nil if the event is about none
}

// Settings are the lab's switches as a worker sees them, by their names in
// JSON.
type Settings struct {
	Idempotency bool   `json:"idempotency"`
	ClaimLease  bool   `json:"claimLease"`
	ProviderKey bool   `json:"providerKey"`
	Ack         string `json:"ack,omitempty"` // early, or nothing
}

// Encode returns e as a line of its own: see [Append].
func Encode(e Event) []byte { return Append(make([]byte, 0, 512), e) }

// Decode reads one line that [Append] made. An error means that the line is
// something else: a child's panic, say.
func Decode(line []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, fmt.Errorf("decode event: %w", err)
	}
	if e.Kind == "" || e.Time.IsZero() {
		return Event{}, fmt.Errorf("decode event: no kind or no time")
	}
	// With its zone a time can lie in a year that Append has no form for.
	if year := e.Time.UTC().Year(); year < 0 || year > 9999 {
		return Event{}, fmt.Errorf("decode event: the time is in the year %d", year)
	}
	return e, nil
}
