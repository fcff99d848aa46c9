package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"notifylab/internal/event"
)

// Bounds of a line in bytes. An event may be longer than what is shown of a
// log: cut, it would be no event any more, and a fact lost.
const (
	maxText  = 64 << 10
	maxEvent = 1 << 20
)

// maxLeft bounds what is still read from a pipe whose time is up: as much as
// a pipe can hold, so all that the dead wrote, and not all that a survivor
// may go on to write.
const maxLeft = 1 << 20

// line forwards one line of stdout, of which more bytes were left out.
func (p *Process) line(l *life, line []byte, more int) {
	if more > 0 {
		p.log(l, line, more)
		return
	}
	e, err := event.Decode(line)
	if err != nil {
		p.log(l, line, 0)
		return
	}
	if e.PID == 0 {
		e.PID = l.pid
	}
	if e.Source == "" {
		e.Source = p.Name()
	}
	if e.Kind == event.Ready {
		if l.ready.IsZero() {
			l.ready = time.Now()
		}
		p.rename(e.Source) // before the sink sees it: who reads READY may Find it
	}
	if p.s.config.Settled(e) {
		l.settled = true
	}
	p.s.emit(e)
}

// log forwards one line that is no event, of which more bytes were left out.
func (p *Process) log(l *life, line []byte, more int) {
	p.s.emit(event.Event{
		Time:   time.Now(),
		Kind:   event.Log,
		Source: p.Name(),
		PID:    l.pid,
		Line:   cut(line, more),
	})
}

// cut returns line as text of at most maxText bytes, and how many bytes that
// leaves out: those cut here and those that were missing before.
func cut(line []byte, more int) string {
	end := len(line)
	if end > maxText {
		end = maxText
	}
	if end < len(line) || more > 0 {
		// Half a character at the end would look like damage in the data.
		for i := 1; i < utf8.UTFMax && i <= end; i++ {
			if utf8.RuneStart(line[end-i]) {
				if !utf8.FullRune(line[end-i : end]) {
					end -= i
				}
				break
			}
		}
	}
	more += len(line) - end
	if more == 0 {
		return string(line)
	}
	return fmt.Sprintf("%s…(+%d bytes)", line[:end], more)
}

// readLines calls each for every line of f, without its newline, the last one
// whether or not it has one. Of a longer line than limit it hands over the
// first limit bytes and how many more there were, and holds no more than that
// in memory. The slice is each's during the call only. It returns true if f
// has a reading deadline that passed before the end.
func readLines(f *os.File, limit int, each func(line []byte, more int)) (held bool) {
	r := bufio.NewReaderSize(&output{f: f, left: maxLeft}, 32<<10)
	var line []byte
	more := 0
	for {
		chunk, err := r.ReadSlice('\n')
		if err == nil {
			chunk = chunk[:len(chunk)-1]
		}
		n := min(len(chunk), limit-len(line))
		line = append(line, chunk[:n]...)
		more += len(chunk) - n
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == nil || len(line)+more > 0:
			each(line, more)
		}
		if err != nil {
			return errors.Is(err, os.ErrDeadlineExceeded)
		}
		line, more = line[:0], 0
		if cap(line) > maxText {
			line = nil // one huge line must not keep its memory for good
		}
	}
}

// An output is a pipe that, when its deadline has passed, is still read as
// far as it is filled. os.File reads nothing then, and a reader that was kept
// waiting by a slow sink would lose what a dead child has left in the pipe.
type output struct {
	f    *os.File
	left int // bytes that may be read after the deadline
}

func (o *output) Read(b []byte) (int, error) {
	n, err := o.f.Read(b)
	if !errors.Is(err, os.ErrDeadlineExceeded) || n > 0 || o.left <= 0 {
		return n, err
	}
	raw, rawErr := o.f.SyscallConn()
	if rawErr != nil {
		return 0, err
	}
	// Control does not look at the deadline. The descriptor does not block.
	if raw.Control(func(fd uintptr) { n, rawErr = unix.Read(int(fd), b) }) != nil {
		return 0, err
	}
	switch {
	case rawErr != nil || n < 0:
		return 0, err // EAGAIN: empty, and still held
	case n == 0:
		return 0, io.EOF
	}
	o.left -= n
	return n, nil
}
