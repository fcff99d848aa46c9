package idem

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/servers/serverstest"
)

func TestAddr(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://host:6380/3":              "host:6380",
		"redis://host":                     "host:6379",
		"redis://":                         "localhost:6379",
		"rediss://u:S3cr3t@[::1]:7":        "[::1]:7",
		"redis://:S3cr3t@host?protocol=2":  "host:6379",
		"unix://u:S3cr3t@/run/redis.sock":  "/run/redis.sock",
		"http://u:S3cr3t@host":             "",
		"host:6379":                        "",
		"redis://u:S3cr3t@host/S3cr3t":     "",
		"redis://u:S3cr3t@host:S3cr3t":     "",
		"redis://u:S3cr3t@ho st":           "",
		"redis://u:S3cr3t%zz@host":         "",
		"redis://host?password=S3cr3t":     "",
		"redis://host?read_timeout=S3cr3t": "",
	} {
		got, err := Addr(url)
		_, dialErr := Dial(url, 1)
		if got != want || (err == nil) != (want != "") || (err == nil) != (dialErr == nil) {
			t.Errorf("%s: want %q, got %q, %v, %v", url, want, got, err, dialErr)
		}
		for _, err := range []error{err, dialErr} {
			if err != nil && (!errors.Is(err, ErrURL) || strings.Contains(err.Error(), "S3cr3t")) {
				t.Errorf("%s: %v", url, err)
			}
		}
	}
}

// reply is an error that Redis sends.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestUnreachableError_Refused(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		reply("NOAUTH Authentication required."):                             true,
		reply("WRONGPASS invalid username-password pair"):                    true,
		reply("NOPERM this user has no permissions"):                         true,
		reply("ERR DB index is out of range"):                                true,
		reply("LOADING Redis is loading the dataset in memory"):              false,
		reply("BUSY Redis is busy running a script"):                         false,
		reply("MISCONF Redis is configured to save RDB snapshots"):           false,
		reply("OOM command not allowed when used memory > 'maxmemory'."):     false,
		reply("READONLY You can't write against a read only replica."):       false,
		reply("MASTERDOWN Link with MASTER is down"):                         false,
		reply("CLUSTERDOWN The cluster is down"):                             false,
		reply("ERR max number of clients reached"):                           false,
		&net.OpError{Op: "dial", Err: errors.New("connection refused")}:      false,
		context.DeadlineExceeded:                                             false,
		redis.ErrPoolTimeout:                                                 false,
		errors.New("WRONGPASS in a text that is not Redis's own, say a DNS"): false,
	} {
		e := &UnreachableError{Addr: "host:6379", Err: errors.Join(err)}
		if got := e.Refused(); got != want {
			t.Errorf("%v: want %v, got %v", err, want, got)
		}
		var r redis.Error
		if refuses := strings.HasPrefix(e.Error(), "Redis at host:6379 refuses: "); refuses != errors.As(err, &r) {
			t.Errorf("%v: %v", err, e)
		}
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	c := dial(t, "")
	if err := Ping(soon(t), c, ""); err != nil {
		t.Error(err)
	}
	if v, err := Version(soon(t), c); err != nil || strings.Count(v, ".") != 2 {
		t.Errorf("version: %q, %v", v, err)
	}
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := nobody.Addr().String()
	_ = nobody.Close()
	u := "redis://u:S3cr3t@" + addr
	err = Ping(soon(t), dial(t, u), u)
	var unreachable *UnreachableError
	if !errors.As(err, &unreachable) || unreachable.Refused() {
		t.Fatalf("want an UnreachableError that is no refusal, got %v", err)
	}
	if want := "Redis does not answer at " + addr + ": connection refused"; err.Error() != want {
		t.Errorf("want %q, got %q", want, err)
	}
}

// No text that comes out of here holds a password.
func TestPing_RefusedAndSilentAboutPasswords(t *testing.T) {
	t.Parallel()
	_, raw := serverstest.URLs(t)
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(serverstest.Namespace(t), "S3cr3t") // nobody is called that
	c := dial(t, u.String())
	err = Ping(soon(t), c, u.String())
	var unreachable *UnreachableError
	if !errors.As(err, &unreachable) || !unreachable.Refused() {
		t.Fatalf("want a refusal, got %v", err)
	}
	if want := "Redis at " + u.Host + " refuses: WRONGPASS "; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("want %q…, got %q", want, err)
	}
	l := newLab(t)
	s := l.worker(c)
	for what, do := range s.calls() {
		if err := do(soon(t)); err == nil || strings.Contains(err.Error(), "S3cr3t") {
			t.Errorf("%s: want an error without the password, got %v", what, err)
		}
	}
}
