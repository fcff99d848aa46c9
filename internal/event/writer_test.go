package event

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A sink keeps each write by itself.
type sink struct {
	mu     sync.Mutex
	writes []string
	err    error         // of every write
	begun  chan struct{} // gets one when a write begins
	end    chan struct{} // a write ends when it gets one, or is closed
}

func newSink() *sink { return &sink{begun: make(chan struct{}, 1000), end: make(chan struct{})} }

func (s *sink) Write(b []byte) (int, error) {
	s.begun <- struct{}{}
	<-s.end
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, string(b))
	return len(b), s.err
}

func (s *sink) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.writes)
}

// gather has lines said one after the other, each by a goroutine of its own, while
// the one before them is being written.
func gather(t *testing.T, s *sink, lines ...string) {
	t.Helper()
	w := NewWriter(s)
	var wg sync.WaitGroup
	for i, line := range lines {
		wg.Go(func() {
			if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
				t.Errorf("%.20q: %d, %v", line, n, err)
			}
			if !strings.Contains(strings.Join(s.all(), ""), line) {
				t.Errorf("%.20q is not written, and Write has returned", line)
			}
		})
		for {
			w.mu.Lock()
			said := w.said
			w.mu.Unlock()
			if said > i {
				break
			}
			runtime.Gosched()
		}
		if i == 0 {
			<-s.begun
		}
	}
	close(s.end)
	wg.Wait()
}

func TestWriter_writes_at_once_what_has_gathered(t *testing.T) {
	t.Parallel()
	s := newSink()
	gather(t, s, "first\n", "a\n", "b\n", "c\n")
	if got := s.all(); !slices.Equal(got, []string{"first\n", "a\nb\nc\n"}) {
		t.Errorf("got %q", got)
	}
}

// Half a line in a pipe would stay there when the process is killed.
func TestWriter_writes_whole_lines_that_a_pipe_takes_at_once(t *testing.T) {
	t.Parallel()
	s := newSink()
	lines := []string{"first\n"}
	for i := range 100 {
		lines = append(lines, fmt.Sprintf("%*d\n", 200+i, i))
	}
	lines = append(lines, strings.Repeat("long", atomicWrite())+"\n", "last\n")
	gather(t, s, lines...)
	got := s.all()
	if strings.Join(got, "") != strings.Join(lines, "") {
		t.Error("they came in another order, or not as they were")
	}
	for _, w := range got {
		if !strings.HasSuffix(w, "\n") || len(w) > atomicWrite() && strings.Count(w, "\n") > 1 {
			t.Errorf("a write of %d bytes that ends in %q", len(w), w[max(0, len(w)-10):])
		}
	}
	if most := len(lines)/4 + 3; len(got) > most {
		t.Errorf("%d writes, want %d at most", len(got), most)
	}
}

func TestWriter_after_an_error(t *testing.T) {
	t.Parallel()
	s := newSink()
	s.err = io.ErrClosedPipe
	close(s.end)
	w := NewWriter(s)
	for range 3 {
		if _, err := w.Write([]byte("a\n")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v", err)
		}
	}
	if got := s.all(); len(got) != 1 {
		t.Errorf("written after an error: %q", got)
	}
}

const speakers, killedEnv = 64, "NOTIFYLAB_TEST_SPEAKERS"

// What has returned from Write is there, whoever kills the process and when, and each
// speaker's lines are in their order.
func TestWriter_SIGKILL_loses_no_line(t *testing.T) {
	if os.Getenv(killedEnv) != "" {
		speak()
	}
	t.Parallel()
	known, knows, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer known.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env, cmd.ExtraFiles = append(os.Environ(), killedEnv+"=1"), []*os.File{knows}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	knows.Close()
	said := make(chan map[string]bool)
	go func() {
		lines, last := map[string]bool{}, map[string]int{}
		for r := bufio.NewScanner(stdout); r.Scan(); {
			var who string
			var n int
			if _, err := fmt.Sscan(r.Text(), &who, &n); err != nil || n != last[who]+1 {
				t.Errorf("after line %d of %s: %q, %v", last[who], who, r.Text(), err)
			}
			lines[r.Text()], last[who] = true, n
		}
		said <- lines
	}()
	seen := 0
	var after []string
	for r := bufio.NewScanner(known); r.Scan(); seen++ {
		after = append(after, r.Text())
		if seen == 2000 {
			_ = cmd.Process.Kill()
		}
	}
	lines := <-said
	_ = cmd.Wait()
	for _, line := range after {
		if !lines[line] {
			t.Errorf("%q was said, and is lost", line)
		}
	}
}

// speak says line after line, and after each, where others see it, that it did.
func speak() {
	w, seen := NewWriter(os.Stdout), os.NewFile(3, "seen")
	var wg sync.WaitGroup
	for g := range speakers {
		wg.Go(func() {
			for n := 1; ; n++ {
				line := fmt.Appendf(nil, "g%d %d\n", g, n)
				if _, err := w.Write(line); err != nil {
					return
				}
				if _, err := seen.Write(line); err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	os.Exit(0)
}

// Into a pipe that is read, by 256 as in a worker: by a write for each line, and by a
// Writer.
func BenchmarkWriter(b *testing.B) {
	line := Encode(said())
	for name, wrap := range map[string]func(io.Writer) io.Writer{
		"each": func(w io.Writer) io.Writer { return &locked{w: w} },
		"all":  func(w io.Writer) io.Writer { return NewWriter(w) },
	} {
		b.Run(name, func(b *testing.B) {
			r, w, err := os.Pipe()
			if err != nil {
				b.Fatal(err)
			}
			cat := exec.Command("cat")
			cat.Stdin = r
			if err := cat.Start(); err != nil {
				b.Fatal(err)
			}
			r.Close()
			w.Fd() // it blocks, as standard output does
			out := wrap(w)
			var wg sync.WaitGroup
			b.ResetTimer()
			for g := range 256 {
				wg.Go(func() {
					for i := g; i < b.N; i += 256 {
						_, _ = out.Write(line)
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			w.Close()
			_ = cat.Wait()
		})
	}
}

type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
