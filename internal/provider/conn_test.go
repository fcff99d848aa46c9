package provider

import (
	"io"
	"net"
	"testing"
)

func TestCountedConn_seal(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) (*countedConn, net.Conn) {
		here, there := net.Pipe()
		t.Cleanup(func() { _, _ = here.Close(), there.Close() })
		return &countedConn{Conn: here}, there
	}
	t.Run("an untouched connection takes nothing any more", func(t *testing.T) {
		t.Parallel()
		c, _ := start(t)
		if !c.seal(c.mark()) {
			t.Error("not sealed")
		}
		if n, err := c.Write([]byte("x")); n != 0 || err != errSealed {
			t.Errorf("write: %d, %v", n, err)
		}
	})
	t.Run("bytes of earlier requests don't count", func(t *testing.T) {
		t.Parallel()
		c, there := start(t)
		go func() { _, _ = io.ReadFull(there, make([]byte, 3)) }()
		if _, err := c.Write([]byte("abc")); err != nil {
			t.Fatal(err)
		}
		if c.seal(0) {
			t.Error("sealed although 3 bytes were written")
		}
		if !c.seal(c.mark()) {
			t.Error("not sealed although nothing was written since")
		}
	})
	t.Run("a write under way may have been seen", func(t *testing.T) {
		t.Parallel()
		c, there := start(t)
		done := make(chan struct{})
		go func() { defer close(done); _, _ = c.Write([]byte("abc")) }()
		if _, err := io.ReadFull(there, make([]byte, 1)); err != nil { // and two are not read yet
			t.Fatal(err)
		}
		if c.seal(0) {
			t.Error("sealed in the middle of a write")
		}
		_ = there.Close()
		<-done
		if c.seal(0) {
			t.Error("sealed although a byte went out")
		}
	})
	t.Run("a write that the connection did not take leaves it untouched", func(t *testing.T) {
		t.Parallel()
		c, there := start(t)
		_ = there.Close()
		if n, err := c.Write([]byte("abc")); n != 0 || err == nil {
			t.Fatalf("write: %d, %v", n, err)
		}
		if !c.seal(0) {
			t.Error("not sealed")
		}
	})
	t.Run("a connection of somebody else's making is never untouched", func(t *testing.T) {
		t.Parallel()
		var tr track
		if !tr.untouched() {
			t.Error("no connection, and yet touched")
		}
		_, there := start(t)
		if tr.begin(there); tr.untouched() {
			t.Error("untouched, which nobody can know")
		}
	})
}
