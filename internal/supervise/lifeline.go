package supervise

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// lifelineEnv holds the number of the descriptor that a child inherits.
const lifelineEnv = "NOTIFYLAB_LIFELINE"

// A Lifeline is a child's view of its supervisor: it is cut when the
// supervisor dies, in whatever way.
type Lifeline struct {
	file *os.File
	lost chan struct{} // nil without a supervisor
}

// OpenLifeline takes up the lifeline that a supervisor has left in this
// process's environment, and removes it from there and from what programs
// started later inherit. Call it once, before anything is started. Without a
// supervisor the lifeline is never cut. An error means that the environment
// names a descriptor that is no pipe: it came from somewhere else.
func OpenLifeline() (*Lifeline, error) {
	value, ok := os.LookupEnv(lifelineEnv)
	if !ok {
		return &Lifeline{}, nil
	}
	if err := os.Unsetenv(lifelineEnv); err != nil {
		return nil, fmt.Errorf("unset %s: %w", lifelineEnv, err)
	}
	fd, err := strconv.Atoi(value)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("open lifeline %q: not a descriptor", value)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, fmt.Errorf("open lifeline %d: %w", fd, err)
	}
	// Without a pipe there, that number is by now the runtime's own or some
	// file: to take it over would break whoever uses it.
	if stat.Mode&unix.S_IFMT != unix.S_IFIFO {
		return nil, fmt.Errorf("open lifeline %d: not a pipe", fd)
	}
	unix.CloseOnExec(fd)
	// Not blocking, so that Close can end a Read.
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("open lifeline %d: %w", fd, err)
	}
	l := &Lifeline{file: os.NewFile(uintptr(fd), "lifeline"), lost: make(chan struct{})}
	go l.watch()
	return l, nil
}

// Lost returns a channel that is closed when the supervisor is gone (or
// [Lifeline.Close] was called). It is nil without a supervisor: a receive from
// it waits for ever.
func (l *Lifeline) Lost() <-chan struct{} { return l.lost }

// Close stops watching and returns when the watching has ended.
func (l *Lifeline) Close() {
	if l.file == nil {
		return
	}
	_ = l.file.Close() // a pipe that nobody wrote to
	<-l.lost
}

func (l *Lifeline) watch() {
	defer close(l.lost)
	// Nobody ever writes: what ends the Read is the end of the other side.
	_, _ = l.file.Read(make([]byte, 1))
}
