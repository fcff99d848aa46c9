package broker

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// link is a socket and the other end of its connection.
func link(t *testing.T) (s *socket, other net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if other, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	s = newSocket(c)
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.write()
	}()
	t.Cleanup(func() {
		s.Close()
		other.Close()
		<-written
	})
	return s, other
}

func TestSocket_writes_and_reads_all_in_order(t *testing.T) {
	t.Parallel()
	s, other := link(t)
	var want []byte
	for i := range 5000 {
		want = append(want, bytes.Repeat([]byte{byte(i)}, i%300)...)
	}
	go func() { // an echo
		_, _ = io.Copy(other, other)
	}()
	go func() {
		for i := range 5000 {
			if n, err := s.Write(bytes.Repeat([]byte{byte(i)}, i%300)); n != i%300 || err != nil {
				t.Errorf("write %d: %d, %v", i, n, err)
				return
			}
		}
	}()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(s, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got other bytes than were written, or %v", err)
	}
}

// What was written alone goes out without anything behind it.
func TestSocket_holds_nothing_back(t *testing.T) {
	t.Parallel()
	s, other := link(t)
	for range 100 {
		if _, err := s.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(other, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
	}
}

// A write larger than the buffer has to wait for an empty one, and no longer.
func TestSocket_takes_a_frame_larger_than_its_buffer(t *testing.T) {
	t.Parallel()
	s, other := link(t)
	go func() {
		_, _ = s.Write([]byte("a"))
		_, _ = s.Write(make([]byte, 3*socketBuffer))
	}()
	if _, err := io.ReadFull(other, make([]byte, 3*socketBuffer+1)); err != nil {
		t.Error(err)
	}
}

// A broker that reads nothing holds a publisher back; the end of the connection lets
// it go. (Without a bound everything would go into memory instead.)
func TestSocket_Close_ends_a_write_that_waits(t *testing.T) {
	t.Parallel()
	s, _ := link(t) // the other end reads nothing
	stuck := make(chan error, 1)
	go func() {
		for {
			if _, err := s.Write(make([]byte, 4096)); err != nil {
				stuck <- err
				return
			}
		}
	}()
	full := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.out)+4096 > socketBuffer
	}
	for deadline := time.Now().Add(10 * time.Second); !full() && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
	s.mu.Lock()
	if waiting := len(s.out); waiting > socketBuffer {
		t.Errorf("%d bytes wait, want at most %d", waiting, socketBuffer)
	}
	s.mu.Unlock()
	s.Close()
	if err := <-stuck; !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want closed", err)
	}
}

// The system's error comes with a later write, and every one after it.
func TestSocket_tells_of_a_broken_connection(t *testing.T) {
	t.Parallel()
	s, other := link(t)
	other.(*net.TCPConn).SetLinger(0)
	other.Close()
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		if _, err := s.Write([]byte("x")); err != nil {
			if _, again := s.Write([]byte("x")); again != err {
				t.Errorf("then %v, want %v again", again, err)
			}
			return
		}
	}
	t.Error("no write failed")
}
