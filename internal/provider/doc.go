// Package provider is both ends of the last hop: [Server], the lab's outside
// world that remembers what it was told, and [Client], which sends
// notifications to any provider that speaks the same plain HTTP.
//
// # The call
//
// One attempt is one POST to <url>/<channel> with the notification as JSON
// ({"id","user","text"}), and with an Idempotency-Key header if the sender
// has a key. Any 2xx means accepted. An X-Notifylab-Pid, if there is one, says which
// process calls.
//
// # What the ledger proves
//
// The server reads a call whole, goes through the faults it was told to have,
// writes the call into its [Ledger], and only then writes the first byte of an
// answer. So a client that dies, or stops listening, anywhere after that was
// accepted all the same; and a call that is not in the ledger was not
// accepted. What the server has read it deals with whether or not the client
// is still there, as a real provider does. Only two things end a call that is
// not yet in the ledger: the server's closing, and, for a call that was told
// to hang, the client's going away.
//
// Of calls with the same id, channel and user the first accepted is
// [event.Accepted] and each further one [event.AcceptedAgain]: somebody got it
// twice. A call whose key came with one accepted before is
// [event.Deduplicated]: it is answered like that one and nothing is done. A
// key is known only from the first accepted call that carried it; a call that
// was accepted without one can't be recognised later. The push services of
// the large platforms have no such key (their collapse keys merge what a phone
// shows, not what is sent), which is why the lab has it as a setting.
//
// # What the client proves
//
// A [notify.Result] never guesses. An answer's status line decides if one was
// read; without one, what decides is whether any byte of the request was
// handed to the connection. If none was, none ever will be: the connection is
// sealed in the same step that looks (see countedConn), so [notify.NotSent] is
// exact. Everything else is [notify.Unknown].
//
// The client never sends a request a second time, and net/http, which by
// itself resends a POST that carries an Idempotency-Key when a kept connection
// breaks, is kept from it.
package provider
