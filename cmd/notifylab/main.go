// Command notifylab is a reliability lab for notification delivery: it runs the
// real thing, kills it at named points, and judges from the provider's own ledger
// what became of the notification.
package main

import (
	"os"
	"os/signal"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

func main() {
	collectLess()
	os.Exit(run(os.Args[1:], process{
		stdout:  os.Stdout,
		stderr:  os.Stderr,
		exit:    os.Exit,
		die:     die,
		suspend: suspend,
	}))
}

// collectLess lets the heap, which is a few megabytes of what lives, grow to five times
// of that between two collections. A worker under load makes almost nothing but
// garbage, and spent a fifth of its time on it (measured). GOGC says otherwise.
func collectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// die ends the process as kill -9 does. The first process of a container can't be
// killed from inside (measured), so that the signal may return: then it exits, at
// once, and no deferred call runs in either case.
func die() {
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	os.Exit(137)
}

// suspend stops the process as kill -STOP does, and returns when it was
// continued. Without the wait the calling thread runs on for a while, far enough
// to ack in 10 of 12 tries (measured).
func suspend() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	<-continued
}
