package servers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
)

// startRedis starts Redis on what data it finds and returns when it has loaded
// it. The child is to be killed also when there is an error.
func startRedis(ctx context.Context, i Info) (*child, error) {
	cmd := exec.Command(i.Binaries.RedisServer,
		"--bind", "127.0.0.1", "--port", strconv.Itoa(i.Ports.Redis),
		"--dir", i.redisDir(),
		// Without the append-only file a restart is amnesia. Once a second is
		// enough: when only the process dies, the kernel has the writes.
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "",
		// A record that were evicted would be a duplicate let through.
		"--maxmemory-policy", "noeviction",
		"--daemonize", "no", "--logfile", "",
	)
	cmd.Env = []string{"PATH=" + i.Binaries.searchPath(), "HOME=" + i.redisDir(), "LANG=C.UTF-8"}
	cmd.Dir = i.redisDir()
	c, err := launch("Redis", cmd, i.output("redis"))
	if err != nil {
		return nil, err
	}
	err = c.awaitAnswer(ctx, func(ctx context.Context) error {
		return ping(ctx, i.Ports.Redis, c.main.PID)
	})
	if err != nil {
		return c, fmt.Errorf("start Redis on %s: %w", loopback(i.Ports.Redis),
			i.withLog(err, []string{"Address already in use"}, i.output("redis")))
	}
	return c, nil
}

// ping asks the Redis at a port for its pid, which must be the given one, else
// the error is errStranger; and whether it has loaded its data: PING is refused
// until then, INFO isn't.
func ping(ctx context.Context, port, pid int) error {
	conn, err := dial(ctx, port)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	if _, err := io.WriteString(conn, "INFO server\r\nPING\r\n"); err != nil {
		return fmt.Errorf("send INFO: %w", err)
	}
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the answer to INFO: %w", err)
	}
	size, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "$")))
	if err != nil || size < 0 || size > 1<<20 {
		return errStranger // ours asks for no password and has an answer
	}
	info := make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(in, info); err != nil {
		return fmt.Errorf("read the answer to INFO: %w", err)
	}
	if !strings.Contains(string(info), "process_id:"+strconv.Itoa(pid)+"\r\n") {
		return errStranger
	}
	line, err = in.ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the answer to PING: %w", err)
	}
	if line != "+PONG\r\n" {
		return fmt.Errorf("PING: %s", strings.TrimSpace(line))
	}
	return nil
}
