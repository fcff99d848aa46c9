package idem

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"notifylab/internal/notify"
)

func TestTakeSlot_Refuses(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"slots", "slots/_", "slots/_/push"} {
		t.Run(place+" is a link", func(t *testing.T) {
			t.Parallel()
			dir, elsewhere := t.TempDir(), t.TempDir()
			at := filepath.Join(dir, place)
			if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(elsewhere, at); err != nil {
				t.Fatal(err)
			}
			refused(t, dir, at)
			if left, err := os.ReadDir(elsewhere); err != nil || len(left) > 0 {
				t.Errorf("something was written elsewhere: %v, %v", left, err)
			}
		})
		t.Run(place+" is another user's", func(t *testing.T) {
			t.Parallel()
			if os.Geteuid() != 0 {
				t.Skip("only root can make a directory another user's")
			}
			dir := t.TempDir()
			at := filepath.Join(dir, place)
			if err := os.MkdirAll(at, 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(at, 12345, 12345); err != nil {
				t.Fatal(err)
			}
			refused(t, dir, at)
		})
	}
	t.Run("a state directory that can't be made", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, filepath.Join(file, "state"), file)
	})
}

func refused(t *testing.T, dir, named string) {
	t.Helper()
	s, err := TakeSlot(dir, "", notify.Push)
	if err == nil {
		_ = s.Free()
		t.Fatal("not refused")
	}
	if !strings.Contains(err.Error(), named) {
		t.Errorf("want an error that names %s, got %v", named, err)
	}
}
