package broker

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestAddr(t *testing.T) {
	t.Parallel()
	for rawURL, want := range map[string]string{
		"amqp://host":             "host:5672",
		"amqps://u:S3cr3t@host/v": "host:5671",
		"amqp://a,amqps://u:S3cr3t@b:7/v, amqp://[::1]": "a:5672, b:7, [::1]:5672",
		"amqp://u:S3,cr3t@a:1,amqp://u:S3,cr3t@b:2":     "a:1, b:2", // a comma in a password
		"":                                    "",
		",amqp://a":                           "",
		"amqp://a,":                           "",
		"amqp://a,,amqp://b":                  "",
		"amqp://u:S3cr3t@a,b:5672":            "", // hosts, not URLs
		"amqp://u:S3cr3t@a,http://u:S3cr3t@b": "",
		"amqp://u:S3cr3t@a,amqp://u:S3cr3t@b:port":         "",
		"amqp://u:S3cr3t@a?heartbeat=S3cr3t,amqp://b":      "",
		"redis://u:S3cr3t@a,amqp://u:S3cr3t@b,amqp://c:99": "",
	} {
		got, err := Addr(rawURL)
		if got != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, ErrURL) {
			t.Errorf("%s: want %q, got %q, %v", rawURL, want, got, err)
		}
		if err != nil {
			keepsSecret(t, err)
		}
	}
}

// refusing is an address at which nobody listens.
func refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// at is a URL with the tests' password for the broker at an address.
func at(addr string) string { return "amqp://guest:" + password + "@" + addr + "/" }

func TestDial_the_next_node_when_one_does_not_answer(t *testing.T) {
	t.Parallel()
	good, addr := brokerAs(t, "guest", "guest", "/")
	for name, first := range map[string]string{
		"refused":  refusing(t),
		"silent":   silent(t, untilClosed),
		"hangs up": silent(t, func(net.Conn) {}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Dial(soon(t), Config{URL: at(first) + "," + good + "," + at(refusing(t)), Heartbeat: time.Second, Timeout: limit / 2})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if c.Addr() != addr {
				t.Errorf("connected to %s, want %s", c.Addr(), addr)
			}
		})
	}
}

// Who refuses has answered: the others are not asked.
func TestDial_no_other_node_when_one_refuses(t *testing.T) {
	t.Parallel()
	good, _ := brokerAs(t, "guest", "guest", "/")
	wrong, addr := brokerAs(t, "guest", password, "/")
	nowhere, _ := brokerAs(t, "guest", "guest", "/nowhere")
	for bad, want := range map[string]error{wrong: ErrAccessRefused, nowhere: ErrNoVhost} {
		err := dialURL(t, at(refusing(t))+","+bad+","+good, limit)
		wantIs(t, err, want)
		if !strings.HasPrefix(err.Error(), "RabbitMQ at "+addr+": ") {
			t.Errorf("it does not say who refused: %v", err)
		}
	}
}

func TestDial_no_node_answers(t *testing.T) {
	t.Parallel()
	one, two, mute := refusing(t), refusing(t), silent(t, untilClosed)
	for rawURL, want := range map[string]string{
		at(one) + "," + at(two):                  one + ", " + two + ": connection refused",
		at(one) + "," + at(mute):                 one + ", " + mute + ": " + one + ": connection refused; " + mute + ": timed out after ",
		at(one) + "," + at(mute) + "," + at(two): one + ", " + mute + ", " + two + ": " + one + ": connection refused; " + mute + ": timed out after ",
	} {
		err := dialURL(t, rawURL, 3*time.Second)
		var unreachable *UnreachableError
		if !errors.As(err, &unreachable) || !strings.HasPrefix(err.Error(), "RabbitMQ does not answer at "+want) {
			t.Errorf("\n got %v\nwant %v", err, want)
		}
	}
}

func TestDial_asks_no_further_node_when_its_context_is_over(t *testing.T) {
	t.Parallel()
	interrupted := errors.New("interrupted by the test")
	ctx, stop := context.WithCancelCause(context.Background())
	first := silent(t, func(c net.Conn) { stop(interrupted); untilClosed(c) })
	good, _ := brokerAs(t, "guest", "guest", "/")
	c, err := Dial(ctx, Config{URL: at(first) + "," + good, Heartbeat: time.Second, Timeout: limit})
	if err == nil {
		c.Close()
	}
	wantIs(t, err, interrupted)
}

// A session that ends is followed by one on whichever node answers then.
func TestOpen_on_the_next_node_when_one_has_gone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	u, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	far := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u.Host = l.Addr().String()
	b.url = u.String() + "," + b.url
	cut := make(chan struct{})
	relayed := make(chan struct{})
	go func() {
		defer close(relayed)
		relay(t, l, far, cut)
	}()
	s := b.open(t, 1)
	if s.conn.Addr() != u.Host {
		t.Fatalf("the first session is at %s, want %s", s.conn.Addr(), u.Host)
	}
	ids := b.fill(t, 1)
	next(t, s)
	l.Close()
	close(cut)
	<-relayed
	awaitOver(t, s)
	again := b.open(t, 1)
	if again.conn.Addr() != far {
		t.Errorf("the next session is at %s, want %s", again.conn.Addr(), far)
	}
	d := next(t, again)
	if idOf(d) != ids[0] || !d.Redelivered {
		t.Errorf("got %s, redelivered %v", idOf(d), d.Redelivered)
	}
}
