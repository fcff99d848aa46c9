package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"notifylab/internal/servers/serverstest"
)

const password = "S3cr3t"

// keepsSecret checks every error of a chain, in every form.
func keepsSecret(t *testing.T, err error) {
	t.Helper()
	for e := err; e != nil; e = errors.Unwrap(e) {
		for _, form := range []string{"%v", "%+v", "%#v", "%q"} {
			if text := fmt.Sprintf(form, e); strings.Contains(text, password) {
				t.Errorf("the password is in an error: %s", text)
			}
		}
	}
}

// brokerAs returns the shared broker's URL with another user, password and path.
func brokerAs(t *testing.T, user, pass, path string) (rawURL, addr string) {
	t.Helper()
	text, _ := serverstest.URLs(t)
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, pass)
	u.Path = path
	return u.String(), u.Host
}

func dialURL(t *testing.T, rawURL string, timeout time.Duration) error {
	t.Helper()
	c, err := Dial(soon(t), Config{URL: rawURL, Heartbeat: time.Second, Timeout: timeout})
	if err == nil {
		c.Close()
		t.Error("connected to ", rawURL)
		return errors.New("no error")
	}
	keepsSecret(t, err)
	return err
}

func TestDial_ARefusedPassword(t *testing.T) {
	t.Parallel()
	rawURL, addr := brokerAs(t, "guest", password, "/")
	err := dialURL(t, rawURL, limit)
	wantIs(t, err, ErrAccessRefused)
	if !strings.Contains(err.Error(), addr) {
		t.Errorf("%s is not in %v", addr, err)
	}
}

func TestDial_ARefusedVhost(t *testing.T) {
	t.Parallel()
	rawURL, addr := brokerAs(t, "guest", "guest", "/nowhere")
	err := dialURL(t, rawURL, limit)
	wantIs(t, err, ErrNoVhost)
	if want := "RabbitMQ at " + addr + ": NOT_ALLOWED: vhost nowhere not found"; err.Error() != want {
		t.Errorf("\n got %v\nwant %v", err, want)
	}
}

func TestDial_AURLThatIsNone(t *testing.T) {
	t.Parallel()
	for _, rawURL := range []string{
		"amqp://u:" + password + "@[::1", "http://u:" + password + "@h/", "amqp://u:" + password + "@h:port/", "u:" + password + "@h",
		"amqp://u:" + password + "@h/?heartbeat=" + password, "amqp://u: " + password + "@h", "",
	} {
		wantIs(t, dialURL(t, rawURL, time.Second), ErrURL)
	}
}

// silent accepts connections, and does with them as told.
func silent(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				serve(c)
				c.Close()
			})
		}
	}()
	t.Cleanup(func() { l.Close(); <-done; serving.Wait() })
	return l.Addr().String()
}

func untilClosed(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func TestDial_NobodyAnswers(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closedPort := l.Addr().String()
	l.Close()
	const short = 500 * time.Millisecond
	start := []byte{1, 0, 0, 0, 0, 0, 2, 0, 10} // the head of a frame, whose rest never comes
	for _, test := range []struct {
		name, addr string
		timeout    time.Duration
		want       string
	}{
		{"closed port", closedPort, limit, "connection refused"},
		{"silent", silent(t, untilClosed), short, "timed out after 500ms"},
		{"silent within a frame", silent(t, func(c net.Conn) { _, _ = c.Write(start); untilClosed(c) }), short, "timed out after 500ms"},
		{"silent after start", silent(t, func(c net.Conn) { relayStart(t, c); untilClosed(c) }), short, "timed out after 500ms"},
		{"hangs up", silent(t, func(c net.Conn) { _, _ = io.ReadFull(c, make([]byte, 8)) }), limit, "EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			began := time.Now()
			err := dialURL(t, "amqp://guest:"+password+"@"+test.addr+"/", test.timeout)
			var unreachable *UnreachableError
			if !errors.As(err, &unreachable) || unreachable.Addr != test.addr {
				t.Fatalf("got %v", err)
			}
			if want := "RabbitMQ does not answer at " + test.addr + ": " + test.want; err.Error() != want {
				t.Errorf("\n got %v\nwant %v", err, want)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// relayStart begins a handshake with a real broker's words, and no more.
func relayStart(t *testing.T, c net.Conn) {
	_, addr := brokerAs(t, "", "", "")
	real, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer real.Close()
	head := make([]byte, 8)
	_, _ = io.ReadFull(c, head)
	_, _ = real.Write(head)
	buf := make([]byte, 4096)
	n, _ := real.Read(buf)
	_, _ = c.Write(buf[:n])
}

// mute relays to a real broker until a channel is to be opened: from then on it
// keeps to itself what the client says.
func mute(t *testing.T, broker string) func(net.Conn) {
	return func(c net.Conn) {
		real, err := net.Dial("tcp", broker)
		if err != nil {
			t.Error(err)
			return
		}
		defer real.Close()
		go func() { _, _ = io.Copy(c, real) }() // ends with either
		_, _ = io.CopyN(real, c, 8)
		for {
			head := make([]byte, 7) // type, channel, size
			if _, err := io.ReadFull(c, head); err != nil {
				return
			}
			rest := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
			if _, err := io.ReadFull(c, rest); err != nil {
				return
			}
			if head[0] == 1 && binary.BigEndian.Uint32(rest) == 20<<16|10 { // channel.open
				untilClosed(c)
				return
			}
			_, _ = real.Write(append(head, rest...))
		}
	}
}

func TestOpen_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	u, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = silent(t, mute(t, u.Host))
	cfg := b.sessionConfig(1)
	cfg.URL = u.String()
	for _, cfg.Declare = range []bool{true, false} {
		began := time.Now()
		_, err := Open(deadline(t, time.Second), cfg)
		wantIs(t, err, context.DeadlineExceeded)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
	}
}

func TestDial_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	interrupted := errors.New("interrupted by the test")
	ctx, stop := context.WithCancelCause(context.Background())
	addr := silent(t, func(c net.Conn) { stop(interrupted); untilClosed(c) })
	_, err := Dial(ctx, Config{URL: "amqp://guest:" + password + "@" + addr, Heartbeat: time.Second, Timeout: limit})
	wantIs(t, err, interrupted)
	keepsSecret(t, err)
}

func TestConn_AfterItsEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.dial(t)
	if got := c.Server(); !strings.HasPrefix(got, "RabbitMQ ") {
		t.Errorf("got %q", got)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	var unreachable *UnreachableError
	if err := c.Declare(soon(t), b.Topology); !errors.As(err, &unreachable) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Publisher(context.Background(), 1); !errors.As(err, &unreachable) {
		t.Errorf("got %v", err)
	}
}
