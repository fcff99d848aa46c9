package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/notify"
)

// silent is an address that takes connections and never says a word.
func silent(t *testing.T) (address string, dialled func() int) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	count, done := make(chan int, 1), make(chan struct{})
	count <- 0
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
			count <- <-count + 1
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
		for _, c := range conns {
			c.Close()
		}
	})
	return ln.Addr().String(), func() int {
		n := <-count
		count <- n
		return n
	}
}

// slack is for a machine that is busy with other tests.
const slack = 15 * time.Second

// within expects that what the program does takes no longer than limit.
func within(t *testing.T, limit time.Duration, do func()) {
	t.Helper()
	began := time.Now()
	do()
	if took := time.Since(began); took > limit+slack {
		t.Errorf("it took %v, at most %v were allowed", took, limit)
	}
}

func TestGiven_URL_that_does_not_answer(t *testing.T) {
	t.Parallel()
	mute, _ := silent(t)
	shared := newCorner(t)
	for name, address := range map[string]string{"refused": nowhere, "silent": mute} {
		for _, args := range []string{"produce", "scenario crash", "scenario all"} {
			t.Run("RabbitMQ "+name+" "+args, func(t *testing.T) {
				t.Parallel()
				c := cornerAt(t, "amqp://u:S3cr3t@"+address+"/", shared.redis)
				within(t, 6*time.Second, func() {
					r := c.run(append(strings.Fields(args), "-v")...)
					r.wantStatus(exitUnavailable)
					wantAway(t, r, "RabbitMQ does not answer at "+address+": ", "S3cr3t")
				})
			})
		}
		t.Run("Redis "+name, func(t *testing.T) {
			t.Parallel()
			c := cornerAt(t, shared.amqp, "redis://u:S3cr3t@"+address+"/")
			within(t, 6*time.Second, func() {
				r := c.run("scenario", "crash", "-o", "json")
				r.wantStatus(exitUnavailable)
				wantAway(t, r, "Redis does not answer at "+address+": ", "S3cr3t")
			})
		})
	}
	for _, args := range []string{"worker push", "supervise"} {
		for server, place := range map[string]func(string) corner{
			"RabbitMQ": func(at string) corner { return cornerAt(t, "amqp://u:S3cr3t@"+at+"/", shared.redis) },
			"Redis":    func(at string) corner { return cornerAt(t, shared.amqp, "redis://u:S3cr3t@"+at+"/") },
		} {
			t.Run(args+" waits for "+server+" and says so once", func(t *testing.T) {
				t.Parallel()
				c := place(nowhere)
				c.t = t
				wait, text := 1500*time.Millisecond, "1.5s"
				if args == "supervise" && server == "Redis" {
					wait, text = 5*time.Second, "5s" // of which it takes some for RabbitMQ
				}
				began := time.Now()
				r := c.run(append(strings.Fields(args), "--connect-timeout", wait.String())...)
				r.wantStatus(exitUnavailable)
				if took := time.Since(began); took < wait {
					t.Errorf("it waited %v", took)
				}
				said := server + " does not answer at " + nowhere + ": connection refused"
				want := []string{
					"notifylab: " + said + "; waiting for up to " + text,
					"notifylab: " + said, "  " + startServers[0], "  " + startServers[1],
				}
				if got := r.errors(); strings.Join(got, "\n") != strings.Join(want, "\n") || r.text() != "" {
					t.Errorf("%s\nwant\n%s", r.all(), strings.Join(want, "\n"))
				}
			})
		}
		t.Run(args+" is told to stop while it waits", func(t *testing.T) {
			t.Parallel()
			c := cornerAt(t, "amqp://"+nowhere, shared.redis)
			r := c.start(strings.Fields(args)...)
			r.awaitError("waiting for up to 30s")
			within(t, 5*time.Second, r.stop)
		})
	}
}

// wantAway expects one line that names the address, the two commands that would
// help, and nothing else.
func wantAway(t *testing.T, r *running, said, secret string) {
	t.Helper()
	lines := r.errors()
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "notifylab: "+said) || strings.Join(lines[1:], "\n") != "  "+startServers[0]+"\n  "+startServers[1] ||
		r.text() != "" || strings.Contains(r.all(), secret) {
		t.Errorf("%s, want %s\n%s", r.name, said, r.all())
	}
}

// rabbitmq/rabbitmq-server#418
func TestWrong_password_or_vhost(t *testing.T) {
	t.Parallel()
	shared := newCorner(t)
	u, err := url.Parse(shared.amqp)
	if err != nil {
		t.Fatal(err)
	}
	redis, err := url.Parse(shared.redis)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"produce", "worker push", "supervise", "scenario crash"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			for _, tt := range []struct{ amqp, redis, want string }{
				{"amqp://guest:S3cr3t@" + u.Host + "/", shared.redis, "RabbitMQ at " + u.Host + ": ACCESS_REFUSED"},
				{"amqp://guest:guest@" + u.Host + "/no%0asuch", shared.redis, `vhost no\nsuch not found`},
				{shared.amqp, "redis://nobody:S3cr3t@" + redis.Host + "/0", "Redis at " + redis.Host + " refuses: "},
			} {
				if args == "produce" && tt.amqp == shared.amqp {
					continue // it has nothing to do with Redis
				}
				c := cornerAt(t, tt.amqp, tt.redis)
				r := c.run(strings.Fields(args)...)
				r.wantStatus(exitUnavailable)
				said := strings.ReplaceAll(strings.Join(r.errors(), ` \n `), "\n", " ")
				said = strings.ReplaceAll(said, ` \n     `, `\n`)
				// What is waited for is said; here it may be a RabbitMQ whose disk is slow.
				if !strings.HasPrefix(said, "notifylab: ") || !strings.Contains(strings.ReplaceAll(said, "'", ""), tt.want) ||
					len(having(r.errors(), tt.want, "waiting")) > 0 || strings.Contains(said, "S3cr3t") || r.text() != "" {
					t.Errorf("%s, want %s\n%s\n%s", r.name, tt.want, said, r.all())
				}
			}
		})
	}
}

func TestNo_servers_none_installed(t *testing.T) {
	t.Parallel()
	skipUnlessAlone(t)
	c := cornerAt(t, "", "").with("PATH=/nowhere", "HOMEBREW_PREFIX=")
	for _, args := range []string{"scenario crash", "servers up", "servers run -- /bin/true"} {
		r := c.startAlone([]string{"/usr/lib/rabbitmq", "/usr/local"}, strings.Fields(args)...)
		r.wantStatus(exitUnavailable)
		if len(having(r.errors(), "rabbitmq-server", "redis-server", "not installed")) != 1 ||
			len(having(r.errors(), installServers[0])) != 1 || len(having(r.errors(), installServers[1])) != 1 || r.text() != "" {
			t.Errorf("%s\n%s", r.name, r.all())
		}
	}
	// Those that use no private pair say what would help as well.
	r := c.startAlone(nil, "produce")
	r.wantStatus(exitUnavailable)
	wantAway(t, r, "RabbitMQ does not answer at localhost:5672: ", "S3cr3t")
}

func TestQueue_exists_with_other_arguments(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"produce --channel push", "worker push", "supervise push=1"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			ctx := patience(t)
			c := newCorner(t)
			conn := c.connection()
			classic := broker.Topology{Names: c.names(), Channels: []notify.Channel{notify.Push}, Type: broker.Classic}
			if err := conn.Declare(ctx, classic); err != nil {
				t.Fatal(err)
			}
			c.t.Cleanup(func() { _ = conn.Delete(context.Background(), classic.QueueNames()...) })
			within(t, 6*time.Second, func() {
				r := c.run(strings.Fields(args)...)
				r.wantStatus(exitUnavailable)
				queue := c.ns + ".push.dlq" // the first that is declared
				want := []string{
					fmt.Sprintf("notifylab: queue %s exists with another x-queue-type: classic there, quorum wanted", queue),
					"  nothing was changed. Delete the lab's queues and keys   notifylab reset --yes   (and --namespace, if one was given)",
					"  or that queue alone, with what is in it                 rabbitmqctl delete_queue " + queue,
					"  or stay out of its way                                  --namespace NAME",
				}
				if got := strings.Join(r.errors(), "\n"); got != strings.Join(want, "\n") || r.text() != "" {
					t.Errorf("%s\nwant\n%s", r.all(), strings.Join(want, "\n"))
				}
			})
			for _, q := range classic.QueueNames() {
				if _, _, ok, err := conn.Ready(ctx, q); !ok || err != nil {
					t.Errorf("%s is gone: %v", q, err)
				}
			}
		})
	}
	t.Run("worker without its queue", func(t *testing.T) {
		t.Parallel()
		c := newCorner(t)
		r := c.run("worker", "push", "--declare=false")
		r.wantStatus(exitUnavailable)
		if len(having(r.errors(), "notify.push")) == 0 {
			t.Error(r.all())
		}
	})
}

func TestHelp_never_dials(t *testing.T) {
	t.Parallel()
	address, dialled := silent(t)
	c := cornerAt(t, "amqp://u:p@"+address, "redis://"+address)
	for _, path := range commandPaths(t) {
		r := c.launch(command(t, append(path, "--help")...))
		r.wantStatus(0)
		if r.errorText() != "" || len(having(r.lines(), "Usage:")) == 0 {
			t.Errorf("%s\n%s", r.name, r.all())
		}
		r = c.launch(command(t, append([]string{"help"}, path...)...))
		r.wantStatus(0)
	}
	if n := dialled(); n != 0 {
		t.Errorf("the servers were dialled %d times", n)
	}
	// The count counts.
	r := c.start("produce")
	eventually(t, "nobody dialled", func() string {
		if dialled() == 0 {
			return "yet"
		}
		return ""
	})
	r.signal(syscall.SIGINT)
	r.wantStatus(exitInterrupted)
}
