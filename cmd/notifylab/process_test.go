package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/scenario"
)

// A running is one run of the program and what it has printed so far.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	name   string
	stdout *os.File // our end
	boots  bool     // a broker of its own
	ended  chan struct{}
	status int // as a shell has it; to be read when ended is closed

	mu      sync.Mutex
	out     []string
	err     []string
	changed chan struct{} // closed and replaced when a line comes
}

// start runs the program in the corner.
func (c corner) start(args ...string) *running {
	c.t.Helper()
	program := binaryFor(c.t, args)
	if c.race {
		program = binary(c.t)
	}
	return c.launch(exec.Command(program, c.placed(args)...))
}

// runRefused runs the program with arguments that are wrong, so that it does nothing.
func (c corner) runRefused(args ...string) *running {
	c.t.Helper()
	r := c.launch(exec.Command(plain(c.t), c.placed(args)...))
	r.wait()
	return r
}

// run runs the program and returns when it has ended.
func (c corner) run(args ...string) *running {
	c.t.Helper()
	r := c.start(args...)
	r.wait()
	return r
}

func (c corner) launch(cmd *exec.Cmd) *running {
	c.t.Helper()
	return c.launchReading(cmd, true)
}

// launchClosed runs a program whose standard output nobody reads.
func (c corner) launchClosed(cmd *exec.Cmd) *running {
	c.t.Helper()
	return c.launchReading(cmd, false)
}

func (c corner) launchReading(cmd *exec.Cmd, reads bool) *running {
	c.t.Helper()
	outR, outW, err := os.Pipe()
	if err != nil {
		c.t.Fatal(err)
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd.Env = c.environment()
	cmd.Stdout, cmd.Stderr = outW, errW
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	r := &running{t: c.t, cmd: cmd, name: strings.Join(cmd.Args[1:], " "), stdout: outR, boots: boots(cmd.Args), ended: make(chan struct{}), changed: make(chan struct{})}
	if !reads {
		outR.Close()
	}
	err = cmd.Start()
	outW.Close()
	errW.Close()
	if err != nil {
		c.t.Fatalf("start %s: %v", r.name, err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { r.read(outR, &r.out) })
	reading.Go(func() { r.read(errR, &r.err) })
	go func() {
		defer close(r.ended)
		state, _ := cmd.Process.Wait()
		reading.Wait()
		outR.Close()
		errR.Close()
		r.status = status(state)
	}()
	c.t.Cleanup(r.cleanUp)
	return r
}

func status(state *os.ProcessState) int {
	if ws := state.Sys().(syscall.WaitStatus); ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

// closeStdout leaves nobody who reads its standard output.
func (r *running) closeStdout() { r.stdout.Close() }

func (r *running) cleanUp() {
	_ = r.cmd.Process.Kill() // it has ended, if all is well
	<-r.ended
	for _, line := range append(r.lines(), r.errors()...) {
		if strings.Contains(line, "DATA RACE") || strings.Contains(line, "panic:") {
			r.t.Errorf("%s: %s\n%s", r.name, line, r.all())
		}
	}
}

func (r *running) read(from io.Reader, to *[]string) {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			r.add(strings.TrimSuffix(line, "\n"), to)
		}
		if err != nil {
			return
		}
	}
}

func (r *running) add(line string, to *[]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*to = append(*to, line)
	close(r.changed)
	r.changed = make(chan struct{})
}

// lines are those of standard output so far.
func (r *running) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.out)
}

// errors are the lines of standard error so far.
func (r *running) errors() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.err)
}

// complaints are the lines of standard error so far but for the news that a server is
// waited for: on a busy machine none may answer at once.
func (r *running) complaints() []string {
	return slices.DeleteFunc(r.errors(), func(line string) bool { return strings.Contains(line, "; waiting for up to ") })
}

func (r *running) text() string      { return strings.Join(r.lines(), "\n") }
func (r *running) errorText() string { return strings.Join(r.errors(), "\n") }
func (r *running) all() string {
	return "stdout:\n" + r.text() + "\nstderr:\n" + r.errorText()
}

func (r *running) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// await waits until it has said what is looked for. What nobody says is for eventually:
// of a run that has ended this looks only once more.
func (r *running) await(what string, found func() bool) {
	r.t.Helper()
	timeout := time.NewTimer(r.limit())
	defer timeout.Stop()
	for {
		next := r.next()
		if found() {
			return
		}
		select {
		case <-next:
		case <-r.ended:
			if !found() {
				r.t.Fatalf("%s ended with %d before %s\n%s", r.name, r.status, what, r.all())
			}
			return
		case <-timeout.C:
			r.t.Fatalf("%s: no %s\n%s", r.name, what, r.all())
		}
	}
}

// awaitLine waits for a line of standard output that has all the parts.
func (r *running) awaitLine(parts ...string) string {
	r.t.Helper()
	return r.awaitLines(1, parts...)
}

// awaitLines waits for n of them, and returns the last.
func (r *running) awaitLines(n int, parts ...string) (last string) {
	r.t.Helper()
	r.await("line with "+strings.Join(parts, " … "), func() bool {
		found := having(r.lines(), parts...)
		if len(found) >= n {
			last = found[n-1]
		}
		return len(found) >= n
	})
	return last
}

// lastLine returns the last there is; if there is none the test ends.
func (r *running) lastLine() string {
	r.t.Helper()
	lines := r.lines()
	if len(lines) == 0 {
		r.t.Fatalf("no line\n%s", r.all())
	}
	return lines[len(lines)-1]
}

func (r *running) awaitError(parts ...string) {
	r.t.Helper()
	r.await("line on stderr with "+strings.Join(parts, " … "), func() bool { return len(having(r.errors(), parts...)) > 0 })
}

// having returns the lines that have all the parts.
func having(lines []string, parts ...string) (found []string) {
	for _, l := range lines {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(l, p) }) {
			found = append(found, l)
		}
	}
	return found
}

func (r *running) over() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// limit is how long anything may take, which is longer for what boots a broker.
func (r *running) limit() time.Duration {
	if r.boots {
		return 5 * time.Minute
	}
	return limit
}

// boots says whether the program starts servers of its own, whatever there is.
func boots(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		return arg == "soak" || arg == "all" || arg == "servers" && !slices.Contains(args, "down") || slices.ContainsFunc(scenario.Catalogue(), func(s scenario.Scenario) bool { return s.Harms && s.Name == arg })
	}) && !slices.Contains(args, "--help")
}

// boot gives those that boot servers their turn, two at a time: more of them would
// only wait for each other. What it returns ends the turn.
func boot(args []string) (done func()) {
	if !boots(args) {
		return func() {}
	}
	booting <- struct{}{}
	return func() { <-booting }
}

var booting = make(chan struct{}, 2)

func (r *running) signal(s syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.t.Fatalf("signal %s: %v", r.name, err)
	}
}

// wait waits for the end and returns the status.
func (r *running) wait() int {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(r.limit()):
		r.t.Fatalf("%s does not end\n%s", r.name, r.all())
	}
	return r.status
}

// wantStatus waits for the end and compares the status.
func (r *running) wantStatus(want int) {
	r.t.Helper()
	if got := r.wait(); got != want {
		r.t.Errorf("%s: status %d, want %d\n%s", r.name, got, want, r.all())
	}
}

// stop ends what runs until it is told to, and expects that it does so cleanly.
func (r *running) stop() {
	r.t.Helper()
	r.signal(syscall.SIGINT)
	r.wantStatus(0)
}

// events reads standard output as JSON lines, all of which have to be events.
func (r *running) events() []event.Event {
	r.t.Helper()
	var events []event.Event
	for _, l := range r.lines() {
		e, err := event.Decode([]byte(l))
		if err != nil {
			r.t.Fatalf("%s: %v: %s", r.name, err, l)
		}
		events = append(events, e)
	}
	return events
}

// command is the program with these arguments and no others.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return exec.Command(binaryFor(t, args), args...)
}
