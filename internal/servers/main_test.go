package servers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"notifylab/internal/servers"
	"notifylab/internal/servers/serverstest"
)

// limit is for every wait of these tests; it never passes when all is well.
const limit = 4 * time.Minute

// ownerArgument makes the test binary an owner that a test can kill.
const ownerArgument = "owner-to-be-killed"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == ownerArgument {
		os.Exit(own())
	}
	code := serverstest.Main(m)
	err := goleak.Find()
	for began := time.Now(); err != nil && time.Since(began) < 10*time.Second; { // a busy machine takes its time to end them
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// own starts a pair, says so, and then does nothing until it is killed.
func own() int {
	pair, err := servers.Start(context.Background(), servers.Options{Holder: serverstest.Holder()})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(pair.Info()); err != nil {
		return 1
	}
	os.Stdin.Read(make([]byte, 1)) // the test keeps the other end open
	return 0
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits for what the system has no event for.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx := within(t)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", limit, what)
		case <-tick.C:
		}
	}
}

// requireGone fails the test if anything of a pair is left.
func requireGone(t *testing.T, i servers.Info) {
	t.Helper()
	for _, p := range i.Processes() {
		if p.PID == 0 {
			t.Errorf("a process wasn't recorded: %+v", i)
		}
		if p.Alive() {
			t.Errorf("process %d is alive", p.PID)
		}
	}
	ports := []int{i.EPMDPort}
	for _, m := range i.Members {
		ports = append(ports, m.Port, m.PeerPort)
	}
	for _, port := range ports {
		if listening(port) {
			t.Errorf("something listens on port %d", port)
		}
	}
	for _, pid := range mentioning(t, i.Dir) {
		t.Errorf("process %s of the pair is left", pid)
	}
	if _, err := os.Stat(i.Dir); !os.IsNotExist(err) {
		t.Errorf("%s: want %v, got %v", i.Dir, fs.ErrNotExist, err)
	}
}

func listening(port int) bool {
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// mentioning returns the processes that have a text in their environment, as all
// that descends from a pair has its directory. Where there is no /proc it is
// none.
func mentioning(t *testing.T, text string) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		// A process that ends meanwhile is one that is gone.
		if environ, err := os.ReadFile(file); err == nil && bytes.Contains(environ, []byte(text)) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}
