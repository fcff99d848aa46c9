package broker

import (
	"bufio"
	"net"
	"sync"
)

// socketBuffer bounds what is read at once, and what waits to be written.
const socketBuffer = 64 << 10

// A socket is a connection with fewer system calls. The library writes every
// method by itself; here what is written while one write is on its way goes by
// the next, all of it, without any waiting for more. And a read takes all that
// has arrived.
//
// So a Write that returns nil has not reached the system yet, which says as
// little as if it had: what makes sure of it is a confirm, or a round trip behind
// it. An error of the system is returned by the next Write.
type socket struct {
	net.Conn
	in *bufio.Reader

	mu     sync.Mutex
	change sync.Cond // what is below has changed
	out    []byte    // not yet handed to the system
	err    error     // of the last write; or net.ErrClosed
}

// newSocket wraps c. Its write method has to run until c is closed.
func newSocket(c net.Conn) *socket {
	s := &socket{Conn: c, in: bufio.NewReaderSize(c, socketBuffer)}
	s.change.L = &s.mu
	return s
}

func (s *socket) Read(p []byte) (int, error) { return s.in.Read(p) }

// Write waits only while there is no room, which is how a broker holds back who
// publishes too fast.
func (s *socket) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.err == nil && len(s.out) > 0 && len(s.out)+len(p) > socketBuffer {
		s.change.Wait()
	}
	if s.err != nil {
		return 0, s.err
	}
	s.out = append(s.out, p...)
	s.change.Broadcast()
	return len(p), nil
}

// write hands over what Write took, in its order.
func (s *socket) write() {
	var spare []byte
	for {
		batch, err := s.take(spare)
		if err == nil {
			_, err = s.Conn.Write(batch)
		}
		if err != nil {
			s.end(err)
			return
		}
		spare = batch
	}
}

// take waits for something to write, and leaves spare in its place.
func (s *socket) take(spare []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.out) == 0 && s.err == nil {
		s.change.Wait()
	}
	batch := s.out
	s.out = spare[:0]
	s.change.Broadcast()
	return batch, s.err
}

func (s *socket) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.change.Broadcast()
}

// Close ends it at once: what has not been handed over is dropped.
func (s *socket) Close() error {
	s.end(net.ErrClosed)
	return s.Conn.Close()
}
