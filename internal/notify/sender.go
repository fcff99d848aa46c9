package notify

import "context"

// An Attempt is one try at sending a notification on one channel.
type Attempt struct {
	Channel      Channel
	Notification Notification

	// Key, if not empty, lets a provider that can do so recognise further
	// attempts at the same notification. See [ProviderKey].
	Key string
}

// A Sender makes attempts. Send makes exactly one request, or none, and says
// what is known of it; ctx bounds it. It never retries by itself.
type Sender interface {
	Send(ctx context.Context, a Attempt) Result
}

// Answer is what is known of an attempt once Send has returned.
type Answer int

const (
	// Accepted: the provider has it.
	Accepted Answer = iota
	// RefusedForGood: the provider will never take this one.
	RefusedForGood
	// RefusedForNow: the provider did not take it, and might later.
	RefusedForNow
	// NotSent: surely not accepted, since nothing was written to anyone.
	NotSent
	// Unknown: it was on its way, and no answer came. It may have been
	// accepted; the next attempt may be the second.
	Unknown
)

func (a Answer) String() string {
	return [...]string{"accepted", "refused for good", "refused for now", "not sent", "unknown"}[a]
}

// Result is a provider's answer to one attempt.
type Result struct {
	Answer Answer
	Reason string // why it was not accepted; for people
}
