package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Names of what tells this binary to become the program under test in a network
// (and, with directories to hide, a file system) of its own.
const (
	aloneEnv = "NOTIFYLAB_TEST_ALONE"
	hideEnv  = "NOTIFYLAB_TEST_HIDE"
)

// startAlone runs the program where no server answers at localhost, whatever this
// machine runs, and with some directories empty.
func (c corner) startAlone(hide []string, args ...string) *running {
	c.t.Helper()
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	alone := c.with(aloneEnv+"="+binary(c.t), hideEnv+"="+strings.Join(hide, ":"))
	cmd := exec.Command(self, c.placed(args)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return alone.launch(cmd)
}

// skipUnlessAlone skips where the kernel gives no namespaces: in a container
// without the capability, say.
func skipUnlessAlone(t *testing.T) {
	t.Helper()
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	if err := cmd.Run(); err != nil {
		t.Skipf("no network namespace to be had here: %v", err)
	}
}

// enterAlone is the other side of startAlone. It returns false in every other
// process.
func enterAlone() bool {
	path := os.Getenv(aloneEnv)
	if path == "" {
		return false
	}
	if err := enter(path); err != nil {
		fmt.Fprintln(os.Stderr, "enter:", err)
		os.Exit(1)
	}
	return true
}

func enter(path string) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, dir := range strings.Split(os.Getenv(hideEnv), ":") {
		if dir == "" {
			continue
		}
		if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
			return fmt.Errorf("hide %s: %w", dir, err)
		}
	}
	os.Unsetenv(aloneEnv)
	os.Unsetenv(hideEnv)
	return unix.Exec(path, append([]string{path}, os.Args[1:]...), os.Environ())
}
