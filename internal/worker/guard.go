package worker

// A Guard is a step of the protocol that a worker can be told to leave out, to show
// what it is for.
type Guard string

const (
	Clock   Guard = "clock"   // the clock check, and the deadline of a send that is made from the lease
	Confirm Guard = "confirm" // a copy is confirmed before its original is acked
)
