// Package scenario plays the lab's lessons and judges them.
//
// A [Scenario] puts up a stage of its own: a namespace, a provider out of the
// workers' reach, workers as child processes under a supervisor. It does one
// thing to it, with real signals, waits for events and never for time, and
// records what happened. When all of its workers are gone a pure function judges
// the record: each thing checked is a [Finding], and what became of each
// notification an [Outcome], which is taken from the provider's ledger alone. A
// worker's own SENT is what the worker believes.
//
// There are three verdicts. Held: everything came out as predicted, a bug that
// was to be reproduced included. Not held: something did not. Inconclusive: it
// can't be judged, since the crash point was not reached or time ran out; that is
// neither a success nor a failure of what was to be shown.
//
// A scenario that expects something not to happen publishes a second notification
// right behind the first. Its acceptance shows that the worker could send, and
// ends the wait.
//
// Scenarios that harm servers do so to a pair of their own, and undo it; if they
// don't come so far the pair is of no use any more. A [Soak] does that, and kills,
// under steady traffic. It keeps counts instead of a history, and its judge has one
// more question: each second acceptance must have a cause of its own, a kill or a
// restart between it and the first, or a guard is missing, whatever the totals say.
//
// In the second chapter ([QueueToLog]) passes expire on the same stage, with a log or
// queues added to it, and whoever reacts is a process: a reaction, a reader, a watcher.
// What forces an order there, an inversion or an overlap, is a gate in the provider.
//
// The matrix is all that can be done to the worker of one message: a [Cell] for each
// setting, crash point and fault. A cell is a scenario, and what it is to come to is
// derived in one place, [Predict]. [Guards] are taken away from the workers to see
// that the cells would notice.
package scenario
