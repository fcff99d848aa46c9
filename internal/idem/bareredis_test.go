package idem

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// startRedis starts a Redis of the test's own, to be configured and counted in, and
// returns its address.
func startRedis(t testing.TB, args ...string) string {
	t.Helper()
	return startRedisOf(t, append([]string{"--save", ""}, args...)...)
}

func startRedisOf(t testing.TB, args ...string) string {
	t.Helper()
	for range 5 { // a free port can be taken before it is used
		port := freePort(t)
		all := slices.Clone(args)
		for i, arg := range all {
			if arg == anyPort {
				all[i] = freePort(t)
			}
		}
		cmd := exec.Command("redis-server", append(all, "--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir())...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { defer close(ended); _ = cmd.Wait() }()
		t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
		if answers(t, "127.0.0.1:"+port, ended) {
			return "127.0.0.1:" + port
		}
	}
	t.Fatal("no Redis of the test's own starts")
	return ""
}

// anyPort is, among the arguments of a Redis, a port that is free then.
const anyPort = "a free port"

func freePort(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
}

// answers waits until a Redis answers, be it that it wants a password, or has ended.
func answers(t testing.TB, addr string, ended <-chan struct{}) bool {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer c.Close()
	for ctx := soon(t); ; {
		if err := c.Ping(ctx).Err(); err == nil || redis.HasErrorPrefix(err, "NOAUTH") {
			return true
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ended:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// startCluster starts two masters that share the slots.
func startCluster(t testing.TB) []string {
	t.Helper()
	var addrs []string
	for range 2 {
		addrs = append(addrs, startRedis(t, "--cluster-enabled", "yes", "--cluster-port", anyPort))
	}
	for i, slots := range [][2]int{{0, 8191}, {8192, 16383}} {
		c := dial(t, "redis://"+addrs[i])
		if err := c.ClusterAddSlotsRange(soon(t), slots[0], slots[1]).Err(); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			continue
		}
		other := dial(t, "redis://"+addrs[1])
		host, port, _ := net.SplitHostPort(addrs[1])
		bus := other.ConfigGet(soon(t), "cluster-port").Val()["cluster-port"]
		if err := c.Do(soon(t), "CLUSTER", "MEET", host, port, bus).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for ctx := soon(t); ; {
		ready := 0
		for _, addr := range addrs {
			if strings.Contains(dial(t, "redis://"+addr).ClusterInfo(ctx).Val(), "cluster_state:ok") {
				ready++
			}
		}
		if ready == len(addrs) {
			return addrs
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the Cluster does not come up")
		}
	}
}

// clusterURL is the form of a URL by which a client knows that it is a Cluster.
func clusterURL(addrs []string) string {
	return "redis://" + addrs[0] + "?addr=" + strings.Join(addrs[1:], "&addr=")
}

// startSentinel starts a Sentinel that watches the Redis at addr as name, by a password
// if that wants one, and returns its address.
func startSentinel(t testing.TB, name, addr, password string) string {
	t.Helper()
	host, port, _ := net.SplitHostPort(addr)
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	text := "sentinel monitor " + name + " " + host + " " + port + " 1\n"
	if password != "" {
		text += "sentinel auth-pass " + name + " " + password + "\n"
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return startRedisOf(t, config, "--sentinel")
}
