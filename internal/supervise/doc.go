// Package supervise runs programs as child processes: it starts them, reads
// the events that they write, starts the ones that die again, and stops them
// all. It prints nothing. What it sees and what it decides goes to one sink.
//
// # Words
//
// A [Child] says what to run. A [Process] is one child's place under a
// [Supervisor]: it has one life after another, each with a pid of its own,
// until it ends for good. A life's group is its process group, which it leads.
//
// # What a child writes
//
// Stdout is for events, one JSON object a line; stderr is for people. Every
// line reaches the sink whole, one at a time, in the order in which the child
// wrote it (stdout and stderr are two pipes: between them order is what the
// scheduler makes of it). What is not an event arrives as event.Log.
//
// # A life, from fork to the last word
//
//	start   a group of its own; two pipes for output; fd 3 is the lifeline
//	die     noticed while the dead leader still occupies its pid
//	sweep   SIGKILL to the group: whoever the leader left behind goes too
//	reap    only now can the pid belong to somebody else
//	drain   both pipes to their end: the group's last words
//	decide  RESTART, GAVE UP or Exited, after every line of that life
//
// Sweeping before reaping is what makes a signal to a group safe: a group's
// number is not used again while its dead leader is not reaped.
//
// A grandchild that left the group (setsid) survives the sweep and may hold
// the pipes open. After Policy.WaitDelay they are closed on it, once all that
// was in them has been read.
//
// # Stopping
//
// A stop is an intent, kept before any signal is sent: a process that was told
// to stop is not restarted, however it ends. SIGTERM goes to the group once,
// then SIGCONT, since a stopped process would never see the first. The group
// has Policy.Grace to finish; what is left of it gets SIGKILL.
//
// # When the supervisor dies
//
// Each child holds the read end of a pipe, the lifeline, whose only write end
// is the supervisor's. However the supervisor dies, the kernel closes that
// end, and a child that watches its [Lifeline] stops by itself. (A parent-death
// signal would not do: it follows the thread that forked, and Go's threads come
// and go.) A child that is stopped just then can't watch anything: the kernel
// sends SIGHUP and SIGCONT to a group with stopped members when it becomes an
// orphan, and that ends it.
//
// A window stays open: where dead processes' children are adopted by a process
// of the same session that is not the machine's own init, that group does not
// become an orphan, and a stopped child stays until somebody continues it; then
// it sees its lifeline cut.
package supervise
