package event

import (
	"bytes"
	"io"
	"runtime"
	"sync"
)

// atomicWrite is how much a pipe takes whole or not at all: PIPE_BUF, which is 512 on
// other systems than Linux, the least that POSIX lets it be.
func atomicWrite() int {
	if runtime.GOOS == "linux" {
		return 4096
	}
	return 512
}

// A Writer writes the lines of many goroutines, several in one write: whoever finds
// that nobody writes does it for all who have said something by then.
//
// Write returns when its line is written. A line that waited for a timer, or for a
// flush, would be lost with its process, though others have seen what came after it:
// an ack, an answer, a record. So a batch is only what is said at the same time, and
// one goroutine alone writes line by line. Of 256 that do nothing else each line
// costs a quarter of a write of its own (BenchmarkWriter).
//
// Lines are written in the order in which Write was called. A write holds whole lines
// and no more than a pipe takes at once, unless a single line is longer: a process
// that is killed leaves no half of one, and two that share a pipe don't mix theirs.
type Writer struct {
	w io.Writer

	mu      sync.Mutex
	moved   sync.Cond // a batch was written
	said    int       // lines, ever
	written int       // of them, so many
	writing bool
	waiting []byte // lines that nobody has taken yet
	spare   []byte // the last batch's room
	err     error  // the first: nothing is written after it
}

// NewWriter returns a Writer on w, to which nobody else should write.
func NewWriter(w io.Writer) *Writer {
	l := &Writer{w: w}
	l.moved.L = &l.mu
	return l
}

// Write writes a line, with its newline, and keeps nothing of it. After an error
// every call returns that.
func (l *Writer) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said++
	mine := l.said
	l.waiting = append(l.waiting, line...)
	for l.writing && l.written < mine {
		l.moved.Wait()
	}
	if l.written < mine {
		l.turn()
	}
	if l.err != nil {
		return 0, l.err
	}
	return len(line), nil
}

// turn writes what has been said. Those who are about to say something are let first:
// without that there are two lines in a write, with it a hundred. The lock is held
// when it is called and when it returns, not while it writes.
func (l *Writer) turn() {
	l.writing = true
	l.mu.Unlock()
	runtime.Gosched()
	l.mu.Lock()
	batch, upTo, err := l.waiting, l.said, l.err
	l.waiting = l.spare[:0]
	l.mu.Unlock()
	for rest := batch; len(rest) > 0 && err == nil; {
		n := whole(rest)
		_, err = l.w.Write(rest[:n])
		rest = rest[n:]
	}
	l.mu.Lock()
	l.spare, l.written, l.err, l.writing = batch, upTo, err, false
	l.moved.Broadcast()
}

// whole returns how many bytes of lines go into one write.
func whole(lines []byte) int {
	most := atomicWrite()
	if len(lines) <= most {
		return len(lines)
	}
	if end := bytes.LastIndexByte(lines[:most], '\n'); end >= 0 {
		return end + 1
	}
	if end := bytes.IndexByte(lines, '\n'); end >= 0 {
		return end + 1
	}
	return len(lines)
}
