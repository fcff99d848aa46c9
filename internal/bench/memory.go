package bench

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"notifylab/internal/event"
	"notifylab/internal/provider"
)

// memory measures how large a worker becomes that has a backlog before it.
func (b *bench) memory(ctx context.Context) error {
	var first float64
	for i, name := range memoryNames(b.Backlogs) {
		backlog := b.Backlogs[i]
		if !b.wants(name) {
			continue
		}
		b.say(name)
		mb, err := b.largest(ctx, backlog, min(b.Backlogs[0], backlog))
		if err != nil {
			return err
		}
		f := Figure{Name: name, MemoryMB: mb, Runs: 1}
		if first == 0 {
			first = mb
		} else {
			f.Ratio, f.Against = mb/first, fmt.Sprintf("memory/%d", b.Backlogs[0])
		}
		b.emit(f)
	}
	return nil
}

func memoryNames(backlogs []int) (names []string) {
	for _, n := range backlogs {
		names = append(names, fmt.Sprintf("memory/%d", n))
	}
	return names
}

// largest returns how large a worker was at most that has handled so many messages
// of a backlog, in millions of bytes.
func (b *bench) largest(ctx context.Context, backlog, handled int) (float64, error) {
	defer b.drop(context.WithoutCancel(ctx))
	if err := b.fill(ctx, backlog); err != nil {
		return 0, err
	}
	p := provider.New(provider.Options{})
	listening, err := p.Listen("")
	if err != nil {
		return 0, err
	}
	defer listening.Close(context.WithoutCancel(ctx))
	argv := b.workerCommand(listening.URL(), "--events", "none", "--idempotency", "on", "--claim-lease", "on", "--provider-key", "off",
		"--prefetch", strconv.Itoa(b.Prefetch), "--concurrency", strconv.Itoa(b.Concurrency))
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = b.Env
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	worked := p.Await(ctx, func(l *provider.Ledger) bool { return l.Count(event.Accepted) >= handled })
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); worked == nil && err != nil {
		worked = fmt.Errorf("the worker ended: %w", err)
	}
	if worked != nil {
		return 0, worked
	}
	return float64(maxRSS(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)) / 1e6, nil
}

// maxRSS is what getrusage(2) says, in bytes: Linux counts in kilobytes.
func maxRSS(n int64) int64 {
	if runtime.GOOS == "linux" {
		return n * 1024
	}
	return n
}
