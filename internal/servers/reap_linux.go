package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// adopt makes this process the parent of all that its descendants leave behind:
// the broker when its script is dead, and the broker's own helpers. Otherwise
// they would go to process 1, which in many a container waits for nobody.
func adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	return nil
}

// reapOrphans waits for whatever child has ended, until ctx ends. RabbitMQ alone
// leaves two a minute: it looks after its epmd by trying to start one. It may be
// faster than the Wait of a child of the holder's own, which then returns an error
// that says so, and nobody reads.
func reapOrphans(ctx context.Context) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	defer signal.Stop(ended)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ended:
		}
		// One signal can stand for many.
		for more := true; more; {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			more = pid > 0 || errors.Is(err, unix.EINTR)
		}
	}
}

// reap ends and waits for every child there is, and for what that makes children.
// Nobody else in the process may want one by then.
func reap(ctx context.Context) error {
	err := await(ctx, func() bool {
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			switch {
			case errors.Is(err, unix.EINTR):
			case err != nil:
				return true // ECHILD: nobody is left
			case pid == 0:
				for _, child := range children() {
					// Not waited for, so the pid is the child's own.
					unix.Kill(child, unix.SIGKILL)
				}
				return false
			}
		}
	})
	if err != nil {
		return fmt.Errorf("wait for the servers' helpers: %w", err)
	}
	return nil
}

// children lists this process's own, by the parent that /proc says they have.
func children() (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it ended meanwhile
		}
		fields, ok := statFields(stat)
		if ok && fields[1] == strconv.Itoa(os.Getpid()) {
			if pid, err := strconv.Atoi(strings.Split(file, "/")[2]); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
