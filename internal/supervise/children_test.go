package supervise

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"notifylab/internal/event"
)

// childEnv makes the test binary be a child: its value is what the child does.
const childEnv = "SUPERVISE_TEST_CHILD"

func TestMain(m *testing.M) {
	if what := strings.Fields(os.Getenv(childEnv)); len(what) > 0 {
		os.Exit(children[what[0]](what[1:]))
	}
	code := m.Run()
	err := goleak.Find()
	for began := time.Now(); err != nil && time.Since(began) < 10*time.Second; { // a busy machine takes its time to end them
		err = goleak.Find()
	}
	if code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// children are what the test binary can be, by name, with their arguments.
// They return their exit status.
var children map[string]func(args []string) int

func init() {
	children = map[string]func([]string) int{
		"work":       work,
		"stubborn":   stubborn,
		"slow":       slow,
		"fail":       fail,
		"settle":     settle,
		"last-words": lastWords,
		"long-line":  longLine,
		"endless":    endless,
		"big-event":  bigEvent,
		"drip":       drip,
		"leave":      leave,
		"shell":      shell,
		"supervisor": supervisor,
		"heir":       heir,
	}
}

func say(e event.Event) {
	e.Time = time.Now()
	os.Stdout.Write(event.Encode(e))
}

// forever waits to be killed, on a signal that nobody sends: an empty select
// would end as a deadlock, since nothing else goes on in these programs.
func forever() int {
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR2)
	<-never
	return 99
}

// work NAME is a good worker: READY, then until SIGTERM or its supervisor's end.
func work(args []string) int {
	line, err := OpenLifeline()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer line.Close()
	term := make(chan os.Signal, 8)
	signal.Notify(term, syscall.SIGTERM)
	say(event.Event{Kind: event.Ready, Source: args[0]})
	select {
	case <-term:
		fmt.Println("told to stop")
		return 0
	case <-line.Lost():
		return 7
	}
}

// stubborn NAME ignores SIGTERM.
func stubborn(args []string) int {
	signal.Ignore(syscall.SIGTERM)
	say(event.Event{Kind: event.Ready, Source: args[0]})
	return forever()
}

// slow NAME says what it gets and takes its time, for ever. It also answers to
// SIGWINCH: a signal with a higher number, so that it comes after a SIGTERM.
func slow(args []string) int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGWINCH)
	say(event.Event{Kind: event.Ready, Source: args[0]})
	for s := range signals {
		if s == syscall.SIGTERM {
			fmt.Println("told to stop")
		} else {
			fmt.Println("still here")
		}
	}
	return 0
}

// fail STATUS exits with it.
func fail(args []string) int {
	var status int
	fmt.Sscan(args[0], &status)
	return status
}

// settle gets something done and dies.
func settle([]string) int {
	say(event.Event{Kind: event.Acked, Source: "w", ID: "1"})
	return 3
}

// lastWords says two things on each output and is killed.
func lastWords([]string) int {
	fmt.Fprintln(os.Stderr, "log 1")
	say(event.Event{Kind: event.Claimed, Source: "w", ID: "1"})
	fmt.Fprint(os.Stderr, "log 2, no newline")
	say(event.Event{Kind: event.Crash, Source: "w", ID: "1"})
	unix.Kill(os.Getpid(), unix.SIGKILL)
	return forever()
}

// longLine writes 1 MiB in a line on both outputs, then works.
func longLine(args []string) int {
	mib := strings.Repeat("x", 1<<20) + "\n"
	os.Stdout.WriteString(mib)
	os.Stderr.WriteString(mib)
	return work(args)
}

// endless writes 3 MiB without a newline and is killed.
func endless([]string) int {
	part := strings.Repeat("x", 1<<20)
	for range 3 {
		os.Stdout.WriteString(part)
	}
	unix.Kill(os.Getpid(), unix.SIGKILL)
	return forever()
}

// bigEvent says an event that is longer than a log line may be.
func bigEvent([]string) int {
	say(event.Event{Kind: event.Sent, Source: "w", Text: strings.Repeat("x", 2*maxText)})
	return 0
}

// drip NAME LINES writes numbered lines in writes of 7 bytes.
func drip(args []string) int {
	var lines int
	fmt.Sscan(args[1], &lines)
	for i := range lines {
		line := fmt.Appendf(nil, "%s line %06d of many\n", args[0], i)
		for len(line) > 0 {
			n := min(7, len(line))
			os.Stdout.Write(line[:n])
			line = line[n:]
		}
	}
	return 0
}

// leave HOW leaves a grandchild that works on, and exits. HOW is stay (in the
// group) or escape (to a session of its own).
func leave(args []string) int {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=heir")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: args[0] == "escape"}
	hello, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return 1
	}
	bufio.NewReader(hello).ReadString('\n')
	say(event.Event{Kind: event.Note, Source: "w", PID: cmd.Process.Pid})
	return 5
}

// heir ignores SIGTERM and holds its stderr.
func heir([]string) int {
	signal.Ignore(syscall.SIGTERM)
	fmt.Println("here")
	return forever()
}

// shell NAME starts a worker and dies at once of a SIGTERM, as shells do.
func shell(args []string) int {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=work "+args[0])
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if cmd.Start() != nil {
		return 1
	}
	cmd.Wait()
	return 0
}

// supervisor has three workers, the third of them stopped, and says so.
func supervisor([]string) int {
	ctx := context.Background()
	var history event.History
	s := New(Config{Sink: func(e event.Event) {
		history.Add(e)
		os.Stdout.Write(event.Encode(e))
	}})
	for _, name := range []string{"a", "b", "c"} {
		p, err := s.Start(child("work " + name))
		if err != nil {
			return 1
		}
		ready, err := history.Await(ctx, is(event.Ready, name))
		if err != nil {
			return 1
		}
		if name == "c" {
			if p.Signal(unix.SIGSTOP) != nil || AwaitStopped(ctx, ready.PID) != nil {
				return 1
			}
		}
	}
	say(event.Event{Kind: event.Note, Reason: "all up"})
	return forever()
}

// child returns the test binary as a child that does what.
func child(what string) Child {
	return Child{
		Name: "child",
		Argv: []string{os.Args[0]},
		Env:  append(os.Environ(), childEnv+"="+what),
	}
}

func once(what string) Child {
	c := child(what)
	c.Once = true
	return c
}

func is(kind event.Kind, source string) func(event.Event) bool {
	return func(e event.Event) bool { return e.Kind == kind && e.Source == source }
}

// about matches the supervisor's own events about a child.
func about(kind event.Kind, owner string) func(event.Event) bool {
	return func(e event.Event) bool {
		return e.Kind == kind && e.Source == Source && e.Owner == owner
	}
}
