package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"notifylab/internal/event"
	"notifylab/internal/provider"
)

// memory measures how large a worker becomes that has a backlog before it. What it has
// taken out is filled up before the next one.
func (b *bench) memory(ctx context.Context) error {
	var first base
	handled := slices.Min(b.Backlogs) // by each, so that only the backlog differs
	for i, name := range memoryNames(b.Backlogs) {
		backlog := b.Backlogs[i]
		if !b.wants(name) {
			continue
		}
		sizes, err := b.before(ctx, name, backlog, handled)
		if err != nil {
			return err
		}
		f := Figure{Name: name, MemoryMB: median(sizes), Runs: len(sizes), With: fmt.Sprintf("%d of them handled, events and journal off", handled)}
		first.set(&f, f.MemoryMB)
		b.emit(f)
	}
	return nil
}

// before returns how large workers became, one after the other, that have handled so
// many messages of a backlog. One by itself says little: it depends on when its garbage
// was collected.
func (b *bench) before(ctx context.Context, name string, backlog, handled int) (sizes []float64, err error) {
	defer b.drop(context.WithoutCancel(ctx))
	missing := backlog
	for round := range b.Rounds {
		b.say(fmt.Sprintf("%s, round %d of %d", name, round+1, b.Rounds))
		b.fills++
		if err := b.publishEach(ctx, missing, func(int) error { return nil }); err != nil {
			return nil, err
		}
		if err := b.awaitReady(ctx, backlog); err != nil {
			return nil, err
		}
		var size float64
		if size, missing, err = b.largest(ctx, handled); err != nil {
			return nil, err
		}
		sizes = append(sizes, size)
	}
	return sizes, nil
}

func memoryNames(backlogs []int) (names []string) {
	for _, n := range backlogs {
		names = append(names, fmt.Sprintf("memory/%d", n))
	}
	return names
}

// largest returns how large a worker was at most, in millions of bytes, that has handled
// so many messages, and how many it has when it has ended.
func (b *bench) largest(ctx context.Context, handled int) (mb float64, all int, err error) {
	p := provider.New(provider.Options{})
	listening, err := p.Listen("")
	if err != nil {
		return 0, 0, err
	}
	defer listening.Close(context.WithoutCancel(ctx))
	argv := b.workerCommand(listening.URL(), "--events", "none", "--journal", "off", "--idempotency", "on", "--claim-lease", "on", "--provider-key", "off",
		"--prefetch", strconv.Itoa(b.Prefetch), "--concurrency", strconv.Itoa(b.Concurrency))
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = b.Env
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	worked := p.Await(ctx, func(l *provider.Ledger) bool { return l.Count(event.Accepted) >= handled })
	peak, known := peakOf(cmd.Process.Pid)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); worked == nil && err != nil {
		worked = fmt.Errorf("the worker ended: %w", err)
	}
	if worked != nil {
		return 0, 0, worked
	}
	if !known {
		peak = cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
	}
	return float64(peak) / 1e6, p.Count(event.Accepted), nil
}

// peakOf returns how many bytes of memory a process had at most so far, where the
// system says so of one that runs. Of one that has ended Linux says, in kilobytes, how
// large it or the process that started it was.
func peakOf(pid int) (bytes int64, known bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	_, err = fmt.Sscanf(rest, "%d kB", &bytes)
	return bytes * 1024, err == nil
}
