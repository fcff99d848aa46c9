package idem

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rs/xid"
	"golang.org/x/sys/unix"

	"notifylab/internal/notify"
)

// An Owner names one life of one worker:
// <boot id>/<device>:<inode>/<slot>/<life>.
type Owner struct {
	Boot string // of the machine, so that an inode means something
	File string // device:inode of the slot's file
	Slot int
	Life string
}

func (o Owner) String() string {
	return o.Boot + "/" + o.File + "/" + strconv.Itoa(o.Slot) + "/" + o.Life
}

// ParseOwner reads what [Owner.String] wrote, and nothing else: what it accepts
// is written again as the same text.
func ParseOwner(s string) (Owner, error) {
	f := strings.Split(s, "/")
	if len(f) != 4 {
		return Owner{}, fmt.Errorf("owner %q: not <boot id>/<device>:<inode>/<slot>/<life>", s)
	}
	slot, err := strconv.Atoi(f[2])
	if err != nil || strconv.Itoa(slot) != f[2] {
		return Owner{}, fmt.Errorf("owner %q: slot %q is not a number", s, f[2])
	}
	return Owner{Boot: f[0], File: f[1], Slot: slot, Life: f[3]}, nil
}

// A Slot is a worker's place: the lowest that was free when it started. It holds
// it until its process dies.
type Slot struct {
	file  *os.File // the lock is on it
	dir   string   // of the channel's slots
	owner Owner
}

const maxSlots = 4096

// TakeSlot takes the lowest free slot of channel c in a namespace, under the
// state directory. Directories are made for this user alone; one that belongs to
// somebody else is an error, since who may write there could make the living
// look dead.
func TakeSlot(stateDir string, ns notify.Namespace, c notify.Channel) (*Slot, error) {
	place := string(ns)
	if place == "" {
		place = "_" // no namespace can be called that
	}
	dir, err := slotDir(stateDir, "slots", place, string(c))
	if err != nil {
		return nil, err
	}
	boot, err := bootID()
	if err != nil {
		return nil, fmt.Errorf("read boot id: %w", err)
	}
	for n := 1; n <= maxSlots; n++ {
		f, err := lock(slotPath(dir, n), func() { <-time.After(10 * time.Millisecond) })
		if errors.Is(err, unix.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			return nil, err
		}
		s := &Slot{file: f, dir: dir, owner: Owner{Boot: boot, Slot: n, Life: xid.New().String()}}
		if s.owner.File, err = identity(f); err == nil {
			err = writeLife(f, s.owner.Life)
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("take slot %d: %w", n, err)
		}
		return s, nil
	}
	return nil, fmt.Errorf("take slot: all %d in %s are taken", maxSlots, dir)
}

// slotDir makes the directories below stateDir, one in the other, and returns the
// innermost. All have to be this user's, and no links to elsewhere.
func slotDir(stateDir string, below ...string) (string, error) {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return "", fmt.Errorf("make state directory: %w", err)
	}
	dir := stateDir
	for _, name := range below {
		dir = filepath.Join(dir, name)
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("make slot directory: %w", err)
		}
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err != nil {
			return "", fmt.Errorf("stat %s: %w", dir, err)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return "", fmt.Errorf("slot directory %s is no directory", dir)
		}
		if int(st.Uid) != os.Geteuid() {
			return "", fmt.Errorf("slot directory %s belongs to another user (uid %d)", dir, st.Uid)
		}
	}
	return dir, nil
}

func slotPath(dir string, n int) string { return filepath.Join(dir, strconv.Itoa(n)) }

// lock opens a slot's file, which is never truncated or unlinked, and takes its
// lock. Whoever asks whether we are dead holds the lock for a moment, so it is
// tried three times, with a pause before the second and the third.
func lock(path string, pause func()) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open slot: %w", err)
	}
	for try := 1; ; try++ {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if try == 3 || !errors.Is(err, unix.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("lock slot %s: %w", path, err)
		}
		pause()
	}
}

// writeLife is called under the lock, and nothing else writes there: another life
// in the file than an owner's means that the owner lost the lock. Records name the
// new life only after this, so nobody takes half a write for the end of it.
func writeLife(f *os.File, life string) error {
	if _, err := f.WriteAt([]byte(life), 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(life)))
}

// Number returns the slot's number, from 1.
func (s *Slot) Number() int { return s.owner.Slot }

// Owner returns what records call this life.
func (s *Slot) Owner() Owner { return s.owner }

// Free gives the slot up, as death does. To close the file is not enough at once: a
// child that this process is just starting has it too, until it becomes another
// program.
func (s *Slot) Free() error {
	return errors.Join(unix.Flock(int(s.file.Fd()), unix.LOCK_UN), s.file.Close())
}

// Dead says whether o is known to be dead. False means that it may live: it
// does, or it is of another machine or boot, or its file is not to be seen here.
func (s *Slot) Dead(o Owner) bool {
	if o == s.owner || o.Boot != s.owner.Boot {
		return false
	}
	f, err := os.Open(slotPath(s.dir, o.Slot))
	if err != nil {
		return false
	}
	defer f.Close()
	if id, err := identity(f); err != nil || id != o.File {
		return false // another file of that name: another container's, say
	}
	// Read from this very file: the path may be another's by now.
	life, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		return false
	}
	if _, err := xid.FromString(string(life)); err != nil {
		return false // empty, or nothing that a worker wrote: it says nothing
	}
	if string(life) != o.Life {
		return true // the slot was taken again, which needs its lock
	}
	// The kernel drops the lock at death, and only then.
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil
}

func identity(f *os.File) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", fmt.Errorf("stat slot: %w", err)
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino), nil
}
