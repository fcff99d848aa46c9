package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/notify"
)

// startAPI runs an api and returns its address once it answers.
func (c corner) startAPI(args ...string) (r *running, address string) {
	c.t.Helper()
	r = c.start(append([]string{"api"}, args...)...)
	r.awaitError("api at http://")
	for _, line := range r.errors() {
		if _, rest, ok := strings.Cut(line, "api at http://"); ok {
			address, _, _ = strings.Cut(rest, " ")
		}
	}
	return r, address
}

// The lessons' own commands, word for word.
func lessonCurls() [][]string {
	const (
		notification = `curl -s -X POST localhost:3100/api/notify -H 'Content-Type: application/json' -d `
		flags        = `curl -s -X PUT localhost:3100/api/lab/flags -H 'Content-Type: application/json' -d `
	)
	return [][]string{
		{notification + `'{"mode":"default"}'`},
		{flags + `'{"idempotency":false,"claimLease":false}'`, notification + `'{"mode":"crash"}'`},
		{flags + `'{"idempotency":true,"claimLease":false}'`, notification + `'{"mode":"crash"}'`},
		{flags + `'{"idempotency":true,"claimLease":false}'`, notification + `'{"mode":"crash-claim"}'`},
		{flags + `'{"idempotency":true,"claimLease":true}'`, notification + `'{"mode":"crash-claim"}'`},
		{notification + `'{"mode":"bad-token"}'`},
	}
}

// The six lessons by curl, with workers under a supervisor.
func TestAPI_the_lessons_by_curl(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	api, address := c.startUsualAPI(t)
	workers := c.start("supervise")
	workers.awaitLines(2, "READY")
	// What each lesson says to look for, in order, and what there must not be.
	looks := []struct{ lines, not string }{
		{"SENT push notif:ID -> user:7|SENT email notif:ID -> user:7", "CRASH"},
		{"SENT push notif:ID|CRASH — worker dying after send, BEFORE ack (notif:ID)|SENT push notif:ID", "DUPLICATE"},
		{"SENT push notif:ID|CRASH — worker dying after send, BEFORE ack (notif:ID)|DUPLICATE DROPPED push notif:ID", "CLAIM RECOVERED"},
		{"CRASH — worker dying AFTER claim, BEFORE send (notif:ID)|DUPLICATE DROPPED push notif:ID", "SENT"},
		{"CRASH — worker dying AFTER claim, BEFORE send (notif:ID)|CLAIM RECOVERED push notif:ID|SENT push notif:ID", "DUPLICATE"},
		{"RETRY 1/3 (0.5s backoff) push notif:ID|RETRY 2/3 (1s backoff) push notif:ID|DEAD-LETTER notif:ID -> push.dlq", "SENT"},
	}
	for i, commands := range lessonCurls() {
		var id string
		for _, command := range commands {
			out, err := exec.Command("sh", "-c", strings.Replace(command, "localhost:3100", address, 1)).Output()
			var answer struct {
				ID          string
				Queued      bool
				Idempotency *bool
			}
			if err != nil || json.Unmarshal(out, &answer) != nil || answer.Idempotency == nil && !answer.Queued {
				t.Fatalf("%s: %v: %s", command, err, out)
			}
			id = answer.ID
		}
		seen := map[string]int{}
		for want := range strings.SplitSeq(strings.ReplaceAll(looks[i].lines, "ID", id), "|") {
			seen[want]++
			workers.awaitLines(seen[want], want)
		}
		if i == 0 {
			continue // what does not come is awaited by nobody: the next lessons are behind it
		}
		if found := having(workers.lines(), looks[i].not, id); len(found) > 0 {
			t.Errorf("lesson %d: %s", i+1, found)
		}
	}
	workers.stop()
	api.stop()
}

// startUsualAPI starts the api at its own port, or, if somebody has that, at another,
// whose address takes the place of localhost:3100.
func (c corner) startUsualAPI(t *testing.T) (*running, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:3100")
	if err != nil {
		return c.startAPI("--listen", "127.0.0.1:0")
	}
	ln.Close()
	r := c.start("api")
	there := func() bool { return len(having(r.errors(), "api at")) > 0 }
	r.await("address", func() bool { return there() || r.over() })
	if there() {
		return r, "localhost:3100"
	}
	r.wantStatus(exitUnavailable) // somebody was faster
	return c.startAPI("--listen", "127.0.0.1:0")
}

// A held network lets nothing back from the broker for a while, or is cut.
type heldNetwork struct {
	url  string
	mu   sync.Mutex
	hold chan struct{} // closed: it lets through
	open []net.Conn
}

func newHeldNetwork(t *testing.T, amqpURL string) *heldNetwork {
	t.Helper()
	n := &heldNetwork{hold: make(chan struct{})}
	close(n.hold)
	n.url = relayed(t, amqpURL, func(client, server net.Conn) {
		n.mu.Lock()
		n.open = append(n.open, client, server)
		n.mu.Unlock()
		n.back(client, server)
	})
	return n
}

func (n *heldNetwork) back(client io.Writer, server io.Reader) {
	buffer := make([]byte, 1<<16)
	for {
		size, err := server.Read(buffer)
		if err != nil {
			return
		}
		n.mu.Lock()
		hold := n.hold
		n.mu.Unlock()
		<-hold
		if _, err := client.Write(buffer[:size]); err != nil {
			return
		}
	}
}

// cut closes all connections.
func (n *heldNetwork) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.open {
		c.Close()
	}
	n.open = nil
}

// holding lets answers wait until it is called.
func (n *heldNetwork) holding() (release func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	hold := make(chan struct{})
	n.hold = hold
	return func() { close(hold) }
}

// At SIGTERM twenty requests wait for their confirms: all are answered, nothing new
// is let in, and that is a clean end. (mtlynch/picoshare#571)
func TestAPI_SIGTERM_answers_what_is_in_flight(t *testing.T) {
	t.Parallel()
	shared := newCorner(t)
	for try := 1; !answersAtSIGTERM(t, cornerAt(t, shared.amqp, shared.redis)); try++ {
		if try == 5 {
			t.Fatal("each time they waited longer than a confirm may take")
		}
	}
}

// answersAtSIGTERM returns false, and has judged nothing, if the machine is too busy to
// do all in the time that a confirm may take.
func answersAtSIGTERM(t *testing.T, c corner) bool {
	t.Helper()
	network := newHeldNetwork(t, c.amqp)
	behind := c
	behind.amqp = network.url
	api, address := behind.startAPI("--listen", "127.0.0.1:0")
	post := func() (int, error) {
		res, err := http.Post("http://"+address+"/api/notify", "application/json", strings.NewReader(`{"mode":"default"}`))
		if err != nil {
			return 0, err
		}
		return res.StatusCode, res.Body.Close()
	}
	if status, err := post(); status != 202 || err != nil {
		t.Fatal(status, err)
	}
	conn := c.connection()
	began, release := time.Now(), network.holding()
	late := func() bool { return time.Since(began) > 4*time.Second } // of 5 s
	answers := make(chan string, 20)
	for range cap(answers) {
		go func() {
			status, err := post()
			answers <- fmt.Sprint(status, " ", err)
		}()
	}
	for _, channel := range notify.Channels() { // their messages have arrived
		eventually(t, "messages", func() string {
			if n, _, _, err := conn.Ready(patience(t), c.names().Work(channel)); (n != 21 || err != nil) && !late() {
				return fmt.Sprint(n, " on ", channel, err)
			}
			return ""
		})
	}
	api.signal(syscall.SIGTERM)
	eventually(t, "it lets more in", func() string {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return ""
		}
		conn.Close()
		return address
	})
	release()
	var wrong []string
	for range cap(answers) {
		if a := <-answers; a != "202 <nil>" {
			wrong = append(wrong, a)
		}
	}
	if late() {
		api.wait()
		return false
	}
	api.wantStatus(exitOK)
	if len(wrong) > 0 || len(api.lines()) > 0 || len(having(api.complaints(), "notifylab:")) > 0 {
		t.Errorf("%q\n%s", wrong, api.all())
	}
	return true
}

// megaease/easeprobe#89
func TestAPI_port_taken(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	do(t, "listen", err)
	defer ln.Close()
	c := newCorner(t).nowhere()       // it is said before any server is asked
	within(t, 5*time.Second, func() { // the race detector's start included
		r := c.run("api", "--listen", ln.Addr().String())
		r.wantStatus(exitUnavailable)
		want := fmt.Sprintf("notifylab: listen on %s: bind: address already in use\n  another address   --listen 127.0.0.1:PORT", ln.Addr())
		if r.errorText() != want || r.text() != "" {
			t.Errorf("%s\nwant %s", r.all(), want)
		}
	})
}

func TestAPI_usage(t *testing.T) {
	t.Parallel()
	c := newCorner(t).nowhere()
	for args, parts := range map[string][]string{
		"--listen 3100":          {`--listen "3100"`, "HOST:PORT"},
		"--publish-timeout 0s":   {"--publish-timeout 0s", "more than 0"},
		"--publish-timeout 6s":   {"--publish-timeout 6s", "at most 5s"},
		"--grace -1s":            {"--grace -1s"},
		"--connect-timeout 0s":   {"--connect-timeout 0s"},
		"--queue-type something": {"queue-type"},
		"push":                   {"push"},
	} {
		c.wantUsage(append([]string{"api"}, strings.Fields(args)...), parts...)
	}
}

// Whoever listens on more than the loopback is warned, and pages of other sites stay
// out all the same. (jdrews/logstation#43)
func TestAPI_warns_where_others_reach_it(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	quiet, _ := c.startAPI("--listen", "localhost:0")
	quiet.stop()
	if len(having(quiet.errors(), "warning")) > 0 {
		t.Error(quiet.all())
	}
	api, address := c.startAPI("--listen", "0.0.0.0:0")
	if len(having(api.errors(), "notifylab: warning: ", "no loopback")) != 1 {
		t.Error(api.all())
	}
	_, port, _ := net.SplitHostPort(address)
	for origin, want := range map[string]int{"": 200, "http://lab.example": 200, "https://evil.example": 403} {
		req, err := http.NewRequest("GET", "http://127.0.0.1:"+port+"/healthz", nil)
		do(t, "request", err)
		req.Host = "lab.example"
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		res, err := http.DefaultClient.Do(req)
		do(t, "ask", err)
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("Origin %q: %d, want %d", origin, res.StatusCode, want)
		}
	}
	api.stop()
}

func TestAPI_queue_exists_with_other_arguments(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	conn := c.connection()
	classic := broker.Topology{Names: c.names(), Channels: notify.Channels(), Type: broker.Classic}
	do(t, "declare", conn.Declare(patience(t), classic))
	t.Cleanup(func() { _ = conn.Delete(context.Background(), classic.QueueNames()...) })
	r := c.run("api", "--listen", "127.0.0.1:0")
	r.wantStatus(exitUnavailable)
	if len(having(r.errors(), "queue "+c.ns+".push.dlq exists with another x-queue-type")) != 1 {
		t.Error(r.all())
	}
	api, _ := c.startAPI("--listen", "127.0.0.1:0", "--queue-type", "classic")
	api.stop()
}
