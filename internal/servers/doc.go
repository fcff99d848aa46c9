// Package servers runs a private RabbitMQ and a private Redis out of what is
// installed on the machine, on ports of their own, and is sure to end them.
//
// # Who is who
//
//	owner ──lifeline, requests──► holder ──┬─ guard ─ epmd
//	      ◄───────answers────────          ├─ guard ─ rabbitmq-server, beam
//	                                       └─ guard ─ redis-server
//
// The owner is the program that wants servers. It starts a holder: a second
// process, in a session of its own, that runs [Hold] and has the servers as its
// children. Each server is in a process group that a guard leads.
//
// # Who notices which death
//
//   - The owner dies, in whatever way: the kernel closes its end of the pipe
//     that is the holder's standard input, the lifeline. The holder reads its
//     end, ends the servers, removes the directory, and exits.
//   - The holder dies, in whatever way: the guards' standard input ends. A guard
//     answers that with SIGKILL to its whole group, itself included. The
//     directory stays behind; [Pair.Close] or [Down] removes it, and if the
//     owner is dead as well it stays in the temporary directory.
//   - A server dies: nothing follows. Its port refuses connections until
//     [Pair.Start]. Servers are for being killed here.
//   - A guard dies: its server goes on, and the holder still ends it by its pid.
//     Only if the holder then is killed as well does the server stay; Close and
//     Down end it by the recorded process.
//
// RabbitMQ can be several nodes, and Redis a Cluster. Then there are more of the same:
// a child of the holder's and a guard for each, ports of its own, one directory, one
// epmd. RabbitMQ's nodes have one home and so one cookie; the second and later ones
// join the first when they boot. Redis's are joined by the holder, with the bus's
// ports given, too: those that Redis would take can be out of range.
//
// A guard kills a group that it is in itself, so the group's number can't have
// come to mean other processes.
//
// RabbitMQ's start script doesn't become the broker, it starts it: the broker is
// known by the pid that it writes to a file. epmd, Erlang's port mapper, would
// start by itself and outlive everybody as a daemon, so it is a child like the
// others, and the broker is told neither to start one nor to use another. What
// starts one all the same, or stays for another reason, is an orphan once the
// broker is dead. On Linux orphans become the holder's children, and it ends them
// before it exits.
//
// At the end all are ended by SIGKILL: the data is removed with them, so there
// is nothing that an orderly end could save, and a server that hangs or is
// stopped ends like any other. [Pair.Stop] is the orderly end, for servers that
// come back.
//
// # Requests
//
// Owner and holder speak in lines of JSON, one request at a time, each answered
// by one line with the request's number and the state of the pair after it. An
// answer whose number isn't awaited any more (its caller had left) is skipped.
//
//	open     the first request: directory, ports, binaries; answered when both
//	         servers answer, or with the reason why they don't
//	stop     an orderly end of one server; its data stays
//	kill     SIGKILL to one server's group; its data stays
//	start    the same server again, on its ports, with its data; a node of RabbitMQ
//	         needs another one that runs
//	suspend  SIGSTOP; answered when the process has stopped
//	resume   SIGCONT
//	detach   from now on the end of the lifeline means nothing; only SIGTERM
//	         ends the holder
//
// [Up] opens a pair, writes its record and only then detaches: whoever dies in
// between, there is either a record or no pair.
//
// # Whose process is it
//
// A pid alone says nothing after a while. Every recorded process is a pid and
// its birth (boot and start time), and nothing outside the holder's own children
// is ever signalled unless both match. A signal can still hit a stranger if the
// process ends and its pid is given out again between the look and the signal.
//
// # Ports
//
// A free port can be taken before its server binds it. A server that says so is
// started again with other ports, unless the caller asked for that very one. And
// what answers at the port must be ours: RabbitMQ says its cluster's name, Redis
// its pid. Ports are chosen below those that the kernel hands to outgoing
// connections: a client that dials a stopped server could otherwise be given
// that very port, be connected to itself, and keep the server from coming back.
package servers
