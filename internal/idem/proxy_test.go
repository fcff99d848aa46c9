package idem

import (
	"bufio"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"notifylab/internal/servers/serverstest"
)

// A proxy stands between a client and Redis and makes the network misbehave: it
// knows commands by their names and treats the next of a name as it is told.
type proxy struct {
	t      testing.TB
	url    string
	target string
	wg     sync.WaitGroup

	mu    sync.Mutex
	seen  map[string]int // commands by their names
	rules map[string][]*fate
	conns []net.Conn
}

// A fate is what becomes of one command.
type fate struct {
	lose  bool // Redis does it, the answer is lost: the connection breaks
	deaf  bool // the connection stays, and nothing comes back any more
	late  bool // the connection breaks, and Redis gets the command when it is let go
	let   chan struct{}
	done  chan struct{} // Redis has answered
	reply string        // what it answered, once done is closed
}

func newProxy(t testing.TB) *proxy {
	t.Helper()
	_, raw := serverstest.URLs(t)
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, target: u.Host, seen: map[string]int{}, rules: map[string][]*fate{}}
	u.Host = l.Addr().String()
	p.url = u.String()
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		for _, fates := range p.rules {
			t.Errorf("%d commands never came", len(fates))
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

// next sets the fate of the next command of that name, after those that have one.
func (p *proxy) next(command string, f fate) *fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.let, f.done = make(chan struct{}), make(chan struct{})
	p.rules[command] = append(p.rules[command], &f)
	return &f
}

// deliver lets a late command go to Redis, and returns when it is done there.
func (f *fate) deliver(t testing.TB) string {
	t.Helper()
	close(f.let)
	select {
	case <-f.done:
	case <-soon(t).Done():
		t.Fatal("Redis did not answer the late command")
	}
	return f.reply
}

// count returns how many commands of that name came.
func (p *proxy) count(command string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[command]
}

func (p *proxy) note(command string) *fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[command]++
	fates := p.rules[command]
	switch len(fates) {
	case 0:
		return nil
	case 1:
		delete(p.rules, command)
	default:
		p.rules[command] = fates[1:]
	}
	return fates[0]
}

// serve passes commands on, and answers back. A connection on which a command
// met its fate is of no use any more.
func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	defer server.Close()

	// One command is on its way at a time, but for those that open a connection.
	var met atomic.Pointer[fate]
	p.wg.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil {
				_ = client.Close()
				return
			}
			if f := met.Load(); f != nil {
				f.reply = string(buf[:n])
				close(f.done)
				if f.lose {
					_ = client.Close()
				}
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				_ = server.Close()
				return
			}
		}
	})
	in := bufio.NewReader(client)
	for {
		raw, name, err := readCommand(in)
		if err != nil {
			return
		}
		f := p.note(name)
		if f != nil {
			met.Store(f)
			if f.late {
				_ = client.Close()
				<-f.let
			}
		}
		if _, err := io.WriteString(server, raw); err != nil {
			return
		}
		if f != nil {
			<-f.done
			if f.deaf {
				_, _ = io.Copy(io.Discard, in) // until the client hangs up
			}
			return
		}
	}
}

// readCommand reads one command of the Redis protocol, and returns it as it came
// and its name in small letters.
func readCommand(in *bufio.Reader) (raw, name string, err error) {
	head, err := in.ReadString('\n')
	if err != nil {
		return "", "", err
	}
	n, err := strconv.Atoi(strings.Trim(head, "*\r\n"))
	if err != nil {
		return "", "", err
	}
	raw = head
	for i := range n {
		size, err := in.ReadString('\n')
		if err != nil {
			return "", "", err
		}
		length, err := strconv.Atoi(strings.Trim(size, "$\r\n"))
		if err != nil {
			return "", "", err
		}
		value := make([]byte, length+len("\r\n"))
		if _, err := io.ReadFull(in, value); err != nil {
			return "", "", err
		}
		if raw += size + string(value); i == 0 {
			name = strings.ToLower(string(value[:length]))
		}
	}
	return raw, name, nil
}
