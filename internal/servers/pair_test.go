package servers_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"notifylab/internal/servers"
	"notifylab/internal/servers/serverstest"
)

// The steps share one pair: a boot takes seconds. Each leaves both servers up.
func TestPair(t *testing.T) {
	t.Parallel()
	began := time.Now()
	pair, err := servers.Start(within(t), servers.Options{Holder: serverstest.Holder()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pair.Close(context.Background()) })
	t.Logf("both servers answer after %.1f s", time.Since(began).Seconds())

	if len(mentioning(t, pair.Info().Dir)) == 0 {
		if _, err := os.Stat("/proc/self/environ"); err == nil {
			t.Error("the check for what is left can't find what is there")
		}
	}
	t.Run("can be used as soon as it is there", func(t *testing.T) {
		store(t, pair.Info(), "first")
		requireStored(t, pair.Info(), "first")
	})
	t.Run("tells its URLs as environment", func(t *testing.T) {
		want := "AMQP_URL=" + pair.AMQPURL + " REDIS_URL=" + pair.RedisURL
		if got := strings.Join(pair.Env(), " "); got != want {
			t.Errorf("want %s, got %s", want, got)
		}
	})
	t.Run("lends its rabbitmqctl", func(t *testing.T) {
		got, err := pair.Rabbitmqctl(within(t), "list_queues", "name", "type", "messages")
		if want := queue + "\tquorum\t0\n"; err != nil || got != want {
			t.Errorf("want %q, got %q, %v", want, got, err)
		}
		if _, err := pair.Rabbitmqctl(within(t), "no_such_command"); err == nil || !strings.Contains(err.Error(), "no_such_command") {
			t.Errorf("want an error with its words, got %v", err)
		}
	})
	t.Run("keeps what is stored over an orderly stop", func(t *testing.T) {
		store(t, pair.Info(), "stopped")
		again(t, pair, pair.Stop)
		requireStored(t, pair.Info(), "stopped")
	})
	t.Run("keeps what is stored over a kill", func(t *testing.T) {
		store(t, pair.Info(), "killed")
		again(t, pair, pair.Kill)
		requireStored(t, pair.Info(), "killed")
	})
	t.Run("does not start what runs", func(t *testing.T) {
		if err := pair.Start(within(t), servers.Redis); err == nil {
			t.Error("want an error")
		}
		if err := pair.Start(within(t), "Postgres"); err == nil {
			t.Error("want an error")
		}
	})
	t.Run("suspends and resumes", func(t *testing.T) {
		client := redisOf(t, pair.Info())
		if err := pair.Suspend(within(t), servers.Redis); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if answers(short, client) {
			t.Error("a suspended Redis answers")
		}
		if err := pair.Resume(within(t), servers.Redis); err != nil {
			t.Fatal(err)
		}
		if !answers(within(t), client) {
			t.Error("a resumed Redis doesn't answer")
		}
	})
	t.Run("skips the answer to a request that was left", func(t *testing.T) {
		left, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond) // to be sent in, and no more
		defer cancel()
		if err := pair.Stop(left, servers.RabbitMQ); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("want %v, got %v", context.DeadlineExceeded, err)
		}
		if err := pair.Resume(within(t), servers.Redis); err != nil {
			t.Error(err)
		}
		if listening(pair.Info().Member(servers.RabbitMQ).Port) {
			t.Error("the request that was left wasn't carried out")
		}
	})
	t.Run("leaves nothing when closed, suspended servers neither", func(t *testing.T) {
		if err := pair.Suspend(within(t), servers.Redis); err != nil {
			t.Fatal(err)
		}
		if err := pair.Close(within(t)); err != nil {
			t.Error(err)
		}
		requireGone(t, pair.Info())
		if err := pair.Close(within(t)); err != nil {
			t.Error("the second time:", err)
		}
	})
}

// again ends both servers in the given way, and starts them.
func again(t *testing.T, pair *servers.Pair, end func(context.Context, servers.Server) error) {
	t.Helper()
	before := pair.Info()
	for _, s := range []servers.Server{servers.RabbitMQ, servers.Redis} {
		if err := end(within(t), s); err != nil {
			t.Fatal(err)
		}
		if m := before.Member(s); listening(m.Port) || m.Process.Alive() {
			t.Fatalf("%s was ended and is there", s)
		}
	}
	for _, s := range []servers.Server{servers.RabbitMQ, servers.Redis} {
		if err := pair.Start(within(t), s); err != nil {
			t.Fatal(err)
		}
		if after := pair.Info().Member(s).Process; after == before.Member(s).Process || !after.Alive() {
			t.Errorf("want a new process of %s, got %+v after %+v", s, after, before.Member(s))
		}
	}
}

func TestPair_EndsWithItsOwner(t *testing.T) {
	t.Parallel()
	owner := exec.Command(os.Args[0], ownerArgument)
	owner.Stderr = os.Stderr
	stdin, err := owner.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	var info servers.Info
	err = json.NewDecoder(stdout).Decode(&info)
	owner.Process.Kill()
	owner.Wait()
	if err != nil {
		t.Fatal("the owner started no pair:", err)
	}
	eventually(t, "the holder ends", func() bool { return !info.Holder.Alive() })
	requireGone(t, info)
}

func TestPair_EndsWithItsHolder(t *testing.T) {
	t.Parallel()
	pair, err := servers.Start(within(t), servers.Options{Holder: serverstest.Holder()})
	if err != nil {
		t.Fatal(err)
	}
	info := pair.Info()
	// A suspended server can't end by itself, so it shows that it is ended.
	if err := pair.Suspend(within(t), servers.RabbitMQ); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(info.Holder.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, p := range info.Processes() {
		eventually(t, "the servers end by themselves", func() bool { return !p.Alive() })
	}
	eventually(t, "their helpers end", func() bool { return len(mentioning(t, info.Dir)) == 0 })
	if err := pair.Stop(within(t), servers.Redis); err == nil {
		t.Error("stop without a holder: want an error")
	}
	if err := pair.Close(within(t)); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("want an error that says killed, got %v", err)
	}
	requireGone(t, info)
}

func TestStart_LeavesNothingWhenGivenUp(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	pair, err := servers.Start(ctx, servers.Options{Holder: serverstest.Holder()})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("want %v, got %v, %v", context.DeadlineExceeded, pair, err)
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("want nothing in %s, got %v, %v", tmp, left, err)
	}
}

func TestStart_RefusesATakenPort(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, err = servers.Start(within(t), servers.Options{
		Holder: serverstest.Holder(), RedisPort: ln.Addr().(*net.TCPAddr).Port,
	})
	if !errors.Is(err, servers.ErrPortTaken) || !strings.Contains(err.Error(), ln.Addr().String()) {
		t.Errorf("want %v with %s, got %v", servers.ErrPortTaken, ln.Addr(), err)
	}
}

func TestStart_SaysWhatTheHolderSaid(t *testing.T) {
	t.Parallel()
	_, err := servers.Start(within(t), servers.Options{Holder: []string{"/bin/sh", "-c", "echo last words >&2; exit 3"}})
	if err == nil || !strings.Contains(err.Error(), "last words") {
		t.Errorf("want the holder's last words, got %v", err)
	}
}
