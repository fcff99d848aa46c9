package scenario

import (
	"notifylab/internal/event"
	"notifylab/internal/worker"
)

// predictCopy is of a message that is refused each time: whatever happens around
// its copies it comes to the dead letters, once or, when a copy was made and the
// original not acked, more often.
func predictCopy(p worker.Point, fault Fault) Prediction {
	pr := Prediction{Outcome: Parked, Redelivered: true, Record: NoRecord, Why: "a copy is confirmed before its original is acked: two, never none"}
	at := event.Crash
	if fault == Stop {
		at = event.Stopped
	}
	pr.Lines = []event.Kind{at, event.Retry, event.DeadLetter}
	if p == worker.AfterCopy {
		pr.Lines = append([]event.Kind{event.Retry}, pr.Lines...)
	}
	return pr
}

// predictTwins is of two copies of one notification under a lease. The worker with
// the first is stopped until its lease is over and the other copy's worker has the
// record. After the claim: it has sent, too, and whoever wakes claims again by
// comparing. In the send: it is still sending, and whoever wakes to a refusal
// releases by comparing; a third worker, with the first copy, waits for the record.
func predictTwins(p worker.Point) Prediction {
	pr := Prediction{Accepted: 1, Outcome: Once, Record: Done}
	if p == worker.AfterClaim {
		pr.Why = "the record was somebody else's when it woke, and it left it to them"
		pr.Lines = []event.Kind{event.Claimed, event.Stopped, event.LeaseBusy, event.Claimed, event.Sent, event.Done, event.Woke, event.LeaseLost, event.DuplicateDropped}
		return pr
	}
	pr.Redelivered = true
	pr.Why = "the record was somebody else's when it woke, and its refusal did not release it"
	pr.Lines = []event.Kind{event.Claimed, event.Stopped, event.LeaseBusy, event.Claimed, event.Woke, event.LeaseLost, event.Sent, event.Done, event.DuplicateDropped}
	return pr
}
