package servers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// holderProcess is the owner's side: the process, and the conversation with it.
type holderProcess struct {
	cmd   *exec.Cmd
	dir   string
	turn  chan struct{} // one request at a time; who sends into it has the turn
	last  int
	in    *os.File // the lifeline
	out   *os.File
	rest  *bufio.Reader
	piece []byte // of a line that a caller left before it was whole
	log   *os.File
}

// dirPrefix begins the name of every pair's directory.
const dirPrefix = "nl-"

// spawn starts a holder with a new directory. The caller must end or release it.
func spawn(argv []string) (*holderProcess, error) {
	if len(argv) == 0 {
		return nil, errors.New("start the holder: no command given")
	}
	// Short, as it becomes HOME, and some systems limit what is built on it.
	dir, err := os.MkdirTemp("", dirPrefix)
	if err != nil {
		return nil, fmt.Errorf("start the holder: %w", err)
	}
	h := &holderProcess{dir: dir, turn: make(chan struct{}, 1)}
	if err := h.start(argv); err != nil {
		h.closeFiles()
		return nil, errors.Join(fmt.Errorf("start the holder: %w", err), os.RemoveAll(dir))
	}
	return h, nil
}

func (h *holderProcess) start(argv []string) error {
	var err error
	// Open here, it can be read when the directory is gone.
	h.log, err = os.OpenFile(filepath.Join(h.dir, "holder.log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	stdin, lifeline, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdin.Close()
	h.in = lifeline
	answers, stdout, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdout.Close()
	h.out, h.rest = answers, bufio.NewReader(answers)

	self, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	if self, err = filepath.Abs(self); err != nil {
		return err
	}
	h.cmd = exec.Command(self, argv[1:]...)
	h.cmd.Dir = h.dir // it may outlive the caller, and must keep no other directory busy
	h.cmd.Stdin, h.cmd.Stdout, h.cmd.Stderr = stdin, stdout, h.log
	// Away from the terminal: Ctrl-C and the window's end are the owner's.
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return h.cmd.Start()
}

// ask sends a request and returns the answer to it. If ctx ends first the holder
// goes on with the request, and the pair is in either state.
func (h *holderProcess) ask(ctx context.Context, r request) (Info, error) {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return Info{}, context.Cause(ctx)
	}
	defer func() { <-h.turn }()

	h.last++
	r.Number = h.last
	line, err := json.Marshal(r)
	if err != nil {
		return Info{}, err
	}
	if _, err := h.in.Write(append(line, '\n')); err != nil {
		return Info{}, h.lost(err)
	}
	for {
		line, err := h.readLine(ctx)
		if err != nil {
			return Info{}, err
		}
		var a answer
		if err := json.Unmarshal(line, &a); err != nil {
			return Info{}, fmt.Errorf("read the holder's answer: %w", err)
		}
		if a.Number != r.Number {
			continue
		}
		if a.Error != "" {
			refused := refusal{text: a.Error}
			if a.Taken {
				refused.kind = ErrPortTaken
			}
			return a.Info, refused
		}
		return a.Info, nil
	}
}

// readLine waits for a line, and leaves what has come of one if ctx ends.
func (h *holderProcess) readLine(ctx context.Context) ([]byte, error) {
	if err := h.out.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		h.out.SetReadDeadline(time.Unix(1, 0))
	})
	piece, err := h.rest.ReadBytes('\n')
	if !stop() {
		<-interrupted // or the next call's deadline could be this one's
	}
	h.piece = append(h.piece, piece...)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, h.lost(err)
	}
	line := bytes.Clone(h.piece)
	h.piece = h.piece[:0]
	return line, nil
}

// lost says why there is no holder to talk to.
func (h *holderProcess) lost(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) {
		err = errors.New("it has ended")
	}
	return h.withLastWords(fmt.Errorf("talk to the holder: %w", err))
}

// withLastWords adds to an error what the holder wrote on standard error.
func (h *holderProcess) withLastWords(err error) error {
	if words := tailOf(h.log, 12); words != "" {
		return fmt.Errorf("%w; its last words:\n%s", err, words)
	}
	return err
}

// end closes the lifeline and returns when the holder and the given processes are
// gone and the directory is removed. If ctx ends first the holder is killed and
// the guards do its work.
func (h *holderProcess) end(ctx context.Context, i Info) error {
	h.in.Close()
	ended := make(chan error, 1)
	go func() { ended <- h.cmd.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		h.cmd.Process.Kill()
		<-ended
		err = context.Cause(ctx)
	}
	if err != nil {
		err = h.withLastWords(fmt.Errorf("end the holder: %w", err))
	}
	h.closeFiles()
	return errors.Join(err, mend(i), os.RemoveAll(h.dir))
}

// abandon is end for a pair that didn't come about, within a time of its own. The
// holder may have been detached, and not notice the lifeline.
func (h *holderProcess) abandon(i Info) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*stopLimit)
	defer cancel()
	h.cmd.Process.Signal(unix.SIGTERM)
	return h.end(ctx, i)
}

// release leaves a detached holder to itself.
func (h *holderProcess) release() error {
	h.closeFiles()
	return h.cmd.Process.Release()
}

func (h *holderProcess) closeFiles() {
	for _, file := range []*os.File{h.in, h.out, h.log} {
		if file != nil {
			file.Close()
		}
	}
}

// mend ends what of a pair a holder that was killed has left. Its guards are
// faster as a rule, and then this only waits for them.
func mend(i Info) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var errs []error
	for _, p := range i.processes() {
		errs = append(errs, p.signal(unix.SIGKILL))
	}
	return errors.Join(append(errs, awaitGone(ctx, i.processes()...))...)
}
