package servers

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// bootRedis starts all nodes, and makes several one Cluster.
func (h *held) bootRedis(ctx context.Context) error {
	all := h.now().of(false)
	g, starting := errgroup.WithContext(ctx)
	for _, m := range all {
		g.Go(func() error { return h.start(starting, m.Server) })
	}
	if err := g.Wait(); err != nil || len(all) == 1 {
		return err
	}
	return formCluster(ctx, all)
}

// startRedis starts a Redis on what data it finds and returns when it has loaded
// it. The child is to be killed also when there is an error.
func startRedis(ctx context.Context, i Info, m Member) (*child, error) {
	args := []string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(m.Port),
		"--dir", i.dir(m),
		// Without the append-only file a restart is amnesia. Once a second is
		// enough: when only the process dies, the kernel has the writes.
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "",
		// A record that were evicted would be a duplicate let through.
		"--maxmemory-policy", "noeviction",
		"--daemonize", "no", "--logfile", "",
	}
	if len(i.of(false)) > 1 {
		args = append(args, clusterOptions(m)...)
	}
	cmd := exec.Command(i.Binaries.RedisServer, args...)
	cmd.Env = []string{"PATH=" + i.Binaries.searchPath(), "HOME=" + i.dir(m), "LANG=C.UTF-8"}
	cmd.Dir = i.dir(m)
	c, err := launch(string(m.Server), cmd, i.output(m.file()))
	if err != nil {
		return nil, err
	}
	err = c.awaitAnswer(ctx, func(ctx context.Context) error {
		return ping(ctx, m.Port, c.main.PID)
	})
	if err != nil {
		return c, fmt.Errorf("start %s on %s: %w", m.Server, loopback(m.Port),
			i.withLog(err, []string{"Address already in use"}, i.output(m.file())))
	}
	return c, nil
}

// ping asks the Redis at a port for its pid, which must be the given one, else
// the error is errStranger; and whether it has loaded its data: PING is refused
// until then, INFO isn't.
func ping(ctx context.Context, port, pid int) error {
	answers, err := say(ctx, port, "INFO server", "PING")
	var refused redisError
	switch {
	case err != nil && !errors.As(err, &refused):
		return err
	case len(answers) == 0 || !strings.Contains(answers[0], "process_id:"+strconv.Itoa(pid)+"\r\n"):
		return errStranger // ours asks for no password and has an answer
	}
	return err
}
