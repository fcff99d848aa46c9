package servers_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"notifylab/internal/servers"
	"notifylab/internal/servers/serverstest"
)

func TestUp(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	options := servers.Options{Holder: serverstest.Holder()}
	t.Cleanup(func() { servers.Down(context.Background(), state) })

	if err := servers.Down(within(t), state); !errors.Is(err, servers.ErrNotUp) {
		t.Errorf("down before up: want %v, got %v", servers.ErrNotUp, err)
	}
	first, already, err := servers.Up(within(t), state, options)
	if err != nil || already {
		t.Fatalf("up: already %v, %v", already, err)
	}
	if again, already, err := servers.Up(within(t), state, options); err != nil || !already || !reflect.DeepEqual(again, first) {
		t.Errorf("up twice: want the same again, got %+v, %v, %v", again, already, err)
	}

	// The holder is killed: the next up clears that away and starts anew.
	if err := syscall.Kill(first.Holder.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the holder is gone", func() bool { return !first.Holder.Alive() })
	if _, err := servers.Running(state); !errors.Is(err, servers.ErrNotUp) {
		t.Errorf("running, holder killed: want %v, got %v", servers.ErrNotUp, err)
	}
	second, already, err := servers.Up(within(t), state, options)
	if err != nil || already {
		t.Fatalf("up after a kill: already %v, %v", already, err)
	}
	requireGone(t, first)
	store(t, second, "up")
	requireStored(t, second, "up")
	if known, err := servers.Running(state); err != nil || !reflect.DeepEqual(known, second) {
		t.Errorf("running: want %+v, got %+v, %v", second, known, err)
	}

	// Nobody believes a record that others can have written.
	path := filepath.Join(state, "servers.json")
	for _, step := range []struct {
		mode os.FileMode
		uid  int
		want string
	}{{0o622, -1, "others may write it"}, {0o600, 65534, "belongs to another user"}} {
		if step.uid >= 0 && os.Geteuid() != 0 {
			continue // only root can give a file away
		}
		if err := errors.Join(os.Chmod(path, step.mode), os.Chown(path, step.uid, -1)); err != nil {
			t.Fatal(err)
		}
		_, running := servers.Running(state)
		_, _, up := servers.Up(within(t), state, options)
		for what, err := range map[string]error{"running": running, "up": up, "down": servers.Down(within(t), state)} {
			if err == nil || !strings.Contains(err.Error(), step.want) {
				t.Errorf("%s: want %s, got %v", what, step.want, err)
			}
		}
	}
	if err := errors.Join(os.Chmod(path, 0o600), os.Chown(path, os.Geteuid(), -1)); err != nil {
		t.Fatal(err)
	}

	if err := servers.Down(within(t), state); err != nil {
		t.Error("down:", err)
	}
	requireGone(t, second)
	if err := servers.Down(within(t), state); !errors.Is(err, servers.ErrNotUp) {
		t.Errorf("down twice: want %v, got %v", servers.ErrNotUp, err)
	}
}

func TestDown_DoesNotHarmWhoHasThePIDNow(t *testing.T) {
	t.Parallel()
	innocent := exec.Command("cat")
	stdin, err := innocent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := innocent.Start(); err != nil {
		t.Fatal(err)
	}
	defer innocent.Wait()
	defer stdin.Close()
	alive, err := servers.Identify(innocent.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	// The record's process had the same pid, and was born at another time.
	other := servers.Process{PID: alive.PID, Born: alive.Born + "0"}
	keep := t.TempDir()
	record := servers.Info{Dir: keep, Holder: other, Members: []servers.Member{{Process: other}, {Process: other}}, EPMD: other}
	state := t.TempDir()
	if err := servers.WriteRecord(within(t), state, record); err != nil {
		t.Fatal(err)
	}
	if err := servers.Down(within(t), state); !errors.Is(err, servers.ErrNotUp) {
		t.Errorf("want %v, got %v", servers.ErrNotUp, err)
	}
	if !alive.Alive() {
		t.Error("it was killed")
	}
	if _, err := os.Stat(keep); err != nil {
		t.Error("a directory that is no pair's was removed:", err)
	}
	if _, err := os.Stat(filepath.Join(state, "servers.json")); !os.IsNotExist(err) {
		t.Errorf("the record of the past: want it gone, got %v", err)
	}
}

func TestDown_TakesAnUnreadableRecordForNone(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	if err := os.WriteFile(filepath.Join(state, "servers.json"), []byte("{half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := servers.Down(within(t), state); !errors.Is(err, servers.ErrNotUp) {
		t.Errorf("want %v, got %v", servers.ErrNotUp, err)
	}
}
