package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// record is the file under the state directory that says which pair is up. Only
// who has the lock may write or remove it; it is replaced as a whole, so reading
// needs none.
type record struct {
	dir  string
	lock *os.File
}

// lockRecord makes the state directory if it must and waits for the lock, which
// the kernel drops when its holder closes the file or dies.
func lockRecord(ctx context.Context, stateDir string) (record, error) {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return record{}, fmt.Errorf("lock the servers' record: %w", err)
	}
	path := filepath.Join(stateDir, "servers.lock")
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return record{}, fmt.Errorf("lock the servers' record: %w", err)
	}
	var refused error
	err = await(ctx, func() bool {
		refused = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		return !errors.Is(refused, unix.EWOULDBLOCK) && !errors.Is(refused, unix.EINTR)
	})
	if err = errors.Join(err, refused); err != nil {
		lock.Close()
		return record{}, fmt.Errorf("lock %s: %w", path, err)
	}
	return record{dir: stateDir, lock: lock}, nil
}

func (r record) unlock() { r.lock.Close() }

func (r record) path() string { return filepath.Join(r.dir, "servers.json") }

// read returns the recorded pair, whether it lives or not; found is false if
// there is none. What can't be read as a record is none: it names no process. One that
// somebody else can have written is an error: it says where to send everything.
func (r record) read() (i Info, found bool, err error) {
	f, err := os.Open(r.path())
	if errors.Is(err, fs.ErrNotExist) {
		return Info{}, false, nil
	}
	if err != nil {
		return Info{}, false, fmt.Errorf("read the servers' record: %w", err)
	}
	defer f.Close()
	if err := trusted(f); err != nil {
		return Info{}, false, fmt.Errorf("read the servers' record %s: %w", r.path(), err)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return Info{}, false, fmt.Errorf("read the servers' record: %w", err)
	}
	if json.Unmarshal(text, &i) != nil || i.Holder.PID <= 0 {
		return Info{}, false, nil
	}
	return i, true, nil
}

// trusted returns an error unless f belongs to this user, and nobody else may write it.
func trusted(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("it belongs to another user (uid %d); take another --state-dir", st.Uid)
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("others may write it (mode %o); remove it", st.Mode&0o777)
	}
	return nil
}

// write replaces the record as a whole or leaves it as it was.
func (r record) write(i Info) error {
	text, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return fmt.Errorf("write the servers' record: %w", err)
	}
	next := r.path() + ".new"
	if err := os.WriteFile(next, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the servers' record: %w", err)
	}
	if err := os.Rename(next, r.path()); err != nil {
		return fmt.Errorf("write the servers' record: %w", err)
	}
	return nil
}

// clear ends what still lives of a recorded pair whose holder is gone, removes
// its directory and then the record. ended reports whether anything lived.
func (r record) clear(i Info) (ended bool, err error) {
	for _, p := range i.processes() {
		ended = ended || p.Alive()
	}
	if err := mend(i); err != nil {
		return ended, err
	}
	// The record is only a file: what it says is removed if it can have been made
	// by spawn, and nothing else.
	if strings.HasPrefix(filepath.Base(i.Dir), dirPrefix) && filepath.IsAbs(i.Dir) {
		if err := os.RemoveAll(i.Dir); err != nil {
			return ended, fmt.Errorf("remove the servers' directory: %w", err)
		}
	}
	if err := os.Remove(r.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ended, fmt.Errorf("remove the servers' record: %w", err)
	}
	return ended, nil
}
