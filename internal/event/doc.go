// Package event has the facts that the lab is about: what happened to which
// notification, said by whom and when. There is one stream of them and many
// renderings: text on a terminal, a JSON object a line between processes and
// for programs, a [History] that a scenario waits on and judges.
//
// Facts that several parties state about one message can disagree. That is
// the point of the lab: a worker's SENT is what the worker believes, and only
// the provider's ledger says what was accepted.
package event
