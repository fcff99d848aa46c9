package servers_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"notifylab/internal/servers"
	"notifylab/internal/servers/serverstest"
)

// open runs a holder inside the test until its end, and returns its answer to the
// request for a pair.
func open(t *testing.T, dir string, b servers.Binaries, choose func(n int) ([]int, error)) servers.Answer {
	t.Helper()
	in, lifeline := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- servers.HoldChoosing(within(t), in, out, choose) }()
	t.Cleanup(func() {
		lifeline.Close()
		if err := <-ended; err != nil {
			t.Error("hold:", err)
		}
		in.Close()
	})
	if _, err := lifeline.Write(servers.OpenLine(dir, b)); err != nil {
		t.Fatal(err)
	}
	var a servers.Answer
	if err := json.NewDecoder(answers).Decode(&a); err != nil {
		t.Fatal("read the answer:", err)
	}
	return a
}

func TestHold_ReplacesPortsThatWereTakenMeanwhile(t *testing.T) {
	t.Parallel()
	binaries, err := servers.Find()
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	taken := ln.Addr().(*net.TCPAddr).Port

	// Each choice but the last is spoilt in another place.
	const epmd, amqp, distribution, redis = 0, 1, 2, 3
	spoil := []int{redis, epmd, distribution, amqp}
	choices := 0
	choose := func(n int) ([]int, error) {
		ports, err := servers.FreePorts(n)
		if choices < len(spoil) {
			ports[spoil[choices]] = taken
		}
		choices++
		return ports, err
	}
	dir := filepath.Join(t.TempDir(), "pair")
	a := open(t, dir, binaries, choose)
	if a.Error != "" || choices != len(spoil)+1 {
		t.Fatalf("want a pair at the choice after %d, got %d choices: %s", len(spoil), choices, a.Error)
	}
	store(t, a.Info, "here")
	requireStored(t, a.Info, "here")
}

func TestHold_SaysWhyAServerDidNotStart(t *testing.T) {
	t.Parallel()
	binaries, err := servers.Find()
	if err != nil {
		t.Fatal(err)
	}
	binaries.RabbitMQServer = filepath.Join(t.TempDir(), "rabbitmq-server")
	script := "#!/bin/sh\necho BOOT FAILED\necho the disk is made of cheese >&2\nexit 1\n"
	if err := os.WriteFile(binaries.RabbitMQServer, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "pair")
	a := open(t, dir, binaries, servers.FreePorts)
	for _, want := range []string{"start RabbitMQ", "BOOT FAILED", "made of cheese"} {
		if !strings.Contains(a.Error, want) {
			t.Errorf("want %q in it, got %q", want, a.Error)
		}
	}
	if a.Taken {
		t.Error("it is about no port")
	}
}

func TestFind_NamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, program := range []string{"rabbitmq-server", "rabbitmqctl"} {
		if err := os.WriteFile(filepath.Join(dir, program), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	_, err := servers.FindIn(t.TempDir(), dir)
	if !errors.Is(err, servers.ErrNotInstalled) || !strings.Contains(err.Error(), "epmd, redis-server") {
		t.Errorf("want %v with the names of two, got %v", servers.ErrNotInstalled, err)
	}
	for _, program := range []string{"epmd", "redis-server"} {
		if err := os.WriteFile(filepath.Join(dir, program), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := servers.FindIn(t.TempDir(), dir); err != nil {
		t.Error(err)
	}
}

func TestHold_EndsWhatTheServersLeaveBehind(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux gives the holder its servers' orphans")
	}
	pair := serverstest.Own(t)
	info := pair.Info()
	// A broker that misses its epmd makes one, as a daemon.
	expression := fmt.Sprintf(`os:cmd("kill -KILL %d"),
		Gone = fun Gone() -> case erl_epmd:names() of {error, _} -> ok; _ -> Gone() end end, Gone(),
		rabbit_nodes_common:ensure_epmd().`, info.EPMD.PID)
	if out, err := pair.Rabbitmqctl(within(t), "eval", expression); err != nil {
		t.Fatal(out, err)
	}
	eventually(t, "another epmd listens", func() bool { return !info.EPMD.Alive() && listening(info.EPMDPort) })
	eventually(t, "what has ended is waited for", func() bool { return len(zombies(t, info.Holder.PID)) == 0 })
	if err := pair.Close(within(t)); err != nil {
		t.Error(err)
	}
	requireGone(t, info)
}

// zombies returns the processes that have ended and that a parent hasn't waited
// for, by Linux's /proc.
func zombies(t *testing.T, parent int) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if stat, err := os.ReadFile(file); err == nil && strings.Contains(string(stat), fmt.Sprintf(") Z %d ", parent)) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}
