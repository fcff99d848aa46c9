package idem

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"notifylab/internal/notify"
)

func dead(t *testing.T, s *Slot, o Owner, want bool) {
	t.Helper()
	if got := s.Dead(o); got != want {
		t.Errorf("%v dead: want %v, got %v", o, want, got)
	}
}

func TestSlot_LowestFree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all []*holder
	for n := 1; n <= 3; n++ {
		h := hold(t, dir)
		if h.owner.Slot != n {
			t.Fatalf("want slot %d, got %d", n, h.owner.Slot)
		}
		all = append(all, h)
	}
	all[1].end(t, unix.SIGKILL)
	if got := takeSlot(t, dir).Number(); got != 2 {
		t.Errorf("want slot 2, which is free, got %d", got)
	}
	if got := takeSlot(t, dir).Number(); got != 4 {
		t.Errorf("want slot 4, got %d", got)
	}
	for _, place := range []struct {
		ns notify.Namespace
		c  notify.Channel
	}{{"other", notify.Push}, {"", notify.Email}} {
		s, err := TakeSlot(dir, place.ns, place.c)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Free()
		if s.Number() != 1 {
			t.Errorf("%v: want a slot 1 of its own, got %d", place, s.Number())
		}
	}
}

func TestSlot_Dead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := hold(t, dir)
	me := takeSlot(t, dir)
	dead(t, me, me.Owner(), false)
	dead(t, me, h.owner, false)
	h.stop(t)
	dead(t, me, h.owner, false) // it may wake and go on
	h.end(t, unix.SIGKILL)
	dead(t, me, h.owner, true)

	next := hold(t, dir)
	if next.owner.Slot != h.owner.Slot || next.owner.File != h.owner.File || next.owner.Life == h.owner.Life {
		t.Errorf("want another life in the same place as %v, got %v", h.owner, next.owner)
	}
	dead(t, me, h.owner, true)
	dead(t, me, next.owner, false)
	next.end(t, 0) // it exits
	dead(t, me, next.owner, true)
	dead(t, me, h.owner, true)
	if again := hold(t, dir); again.owner.Slot != 1 {
		t.Errorf("want slot 1, got %v", again.owner)
	}
	dead(t, me, h.owner, true)
	dead(t, me, next.owner, true)
}

// Whatever can't be told from here may live.
func TestSlot_DeadIsNotGuessed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	me := takeSlot(t, dir)
	gone := hold(t, dir)
	gone.end(t, unix.SIGKILL)
	dead(t, me, gone.owner, true)

	for name, other := range map[string]func(*Owner){
		"boot":    func(o *Owner) { o.Boot = "another" },
		"file":    func(o *Owner) { o.File = "1:2" },
		"slot":    func(o *Owner) { o.Slot = 77 },
		"no slot": func(o *Owner) { o.Slot = -1 },
	} {
		t.Run("another "+name, func(t *testing.T) {
			o := gone.owner
			other(&o)
			dead(t, me, o, false)
		})
	}
	path := slotPath(me.dir, gone.owner.Slot)
	for name, life := range map[string]string{
		"empty": "", "space": "\n", "garbage": "garbage", "torn": gone.owner.Life[:7], "long": strings.Repeat(gone.owner.Life, 9),
		"binary": "\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff",
	} {
		t.Run(name+" file", func(t *testing.T) {
			if err := os.WriteFile(path, []byte(life), 0o600); err != nil {
				t.Fatal(err)
			}
			dead(t, me, gone.owner, false)
		})
	}
	t.Run("a start mends the file", func(t *testing.T) {
		next := hold(t, dir)
		if next.owner.Slot != gone.owner.Slot {
			t.Fatalf("want slot %d, got %v", gone.owner.Slot, next.owner)
		}
		dead(t, me, gone.owner, true)
		dead(t, me, next.owner, false)
	})
	t.Run("another file in its place", func(t *testing.T) {
		// Held open, as by a worker that lives, or else its inode may come again.
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		dead(t, me, gone.owner, false) // there is none
		next := hold(t, dir)
		dead(t, me, gone.owner, false)
		dead(t, me, next.owner, false)
		next.end(t, unix.SIGKILL)
		dead(t, me, gone.owner, false)
		dead(t, me, next.owner, true)
	})
}

// A child that is being started has the slot's file too, for a moment.
func TestSlot_FreeThoughAChildHasIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	me, gone := takeSlot(t, dir), takeSlot(t, dir)
	child, err := unix.Dup(int(gone.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(child)
	if err := gone.Free(); err != nil {
		t.Fatal(err)
	}
	dead(t, me, gone.Owner(), true)
}

// A probe has the lock for a moment, which makes no start take another slot.
func TestLock_OutlastsAProbe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "1")
	for _, pauses := range []int{1, 2, 3} {
		probe, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer probe.Close()
		if err := unix.Flock(int(probe.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
			t.Fatal(err)
		}
		n := 0
		f, err := lock(path, func() {
			if n++; n == pauses {
				_ = unix.Flock(int(probe.Fd()), unix.LOCK_UN) // a child that is being started may have it too
				_ = probe.Close()
			}
		})
		if pauses > 2 {
			if !errors.Is(err, unix.EWOULDBLOCK) || n != 2 {
				t.Errorf("held for long: want it given up after 2 pauses, got %v after %d", err, n)
			}
			continue
		}
		if err != nil {
			t.Fatalf("held for %d pauses: %v", pauses, err)
		}
		_ = f.Close()
	}
}

// Many look whether a dead one is dead, at once and all the time.
func TestSlot_ProbesAgree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gone := hold(t, dir)
	gone.end(t, unix.SIGKILL)
	var slots []*Slot
	keep := hold(t, dir) // slot 1 stays taken: no probe's lock can be taken for a start's
	for range 4 {
		slots = append(slots, takeSlot(t, dir))
	}
	keep.end(t, unix.SIGKILL)
	answers := make(chan bool)
	for _, s := range slots {
		go func() {
			all := true
			for range 1000 {
				all = s.Dead(keep.owner) && s.Dead(gone.owner) && all
			}
			answers <- all
		}()
	}
	for range slots {
		if !<-answers {
			t.Error("a probe was taken for a life")
		}
	}
}
