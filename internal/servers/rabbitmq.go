package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// erlangEnv is the whole environment of RabbitMQ and rabbitmqctl. Nothing is
// inherited: a RABBITMQ_ or ERL_ variable of the caller's could lead into a
// broker that isn't ours.
func (i Info) erlangEnv() []string {
	in := func(name string) string { return filepath.Join(i.run(), name) }
	// Word-split by the scripts, so no path may be in here.
	const private = "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}"
	return []string{
		"PATH=" + i.Binaries.searchPath(),
		"HOME=" + i.home(), // the cookie lies here
		"TMPDIR=" + i.home(),
		"LANG=C.UTF-8",
		"ERL_CRASH_DUMP_SECONDS=0", // no dump, which can take long
		"ELIXIR_ERL_OPTIONS=+fnu",  // rabbitmqctl warns if file names aren't UTF-8
		"ERL_EPMD_PORT=" + strconv.Itoa(i.Ports.EPMD),
		"RABBITMQ_NODENAME=" + i.Node,
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		"RABBITMQ_NODE_PORT=" + strconv.Itoa(i.Ports.AMQP),
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(i.Ports.Distribution),
		// No configuration file at all, neither ours nor the machine's: none is
		// needed, and parsing even an empty one takes half a second.
		"RABBITMQ_CONF_ENV_FILE=" + in("none/env"),
		"RABBITMQ_CONFIG_FILE=" + in("none/rabbitmq"),
		"RABBITMQ_CONFIG_FILES=" + in("none/conf.d"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + in("none/advanced.config"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + i.pluginsFile(),
		"RABBITMQ_MNESIA_BASE=" + in("mnesia"),
		"RABBITMQ_LOG_BASE=" + i.logDir(),
		"RABBITMQ_PID_FILE=" + i.brokerPIDFile(),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=" + private,
		"RABBITMQ_CTL_ERL_ARGS=" + private,
	}
}

func (i Info) pluginsFile() string   { return filepath.Join(i.run(), "plugins") }
func (i Info) brokerPIDFile() string { return filepath.Join(i.run(), "rabbitmq.pid") }

// startEPMD starts Erlang's port mapper and returns when it listens. Whether it
// is ours that listens is seen when RabbitMQ is up: one that finds its port taken
// exits.
func startEPMD(ctx context.Context, i Info) (*child, error) {
	cmd := exec.Command(i.Binaries.EPMD, "-port", strconv.Itoa(i.Ports.EPMD), "-address", "127.0.0.1")
	cmd.Env = i.erlangEnv()
	cmd.Dir = i.home()
	c, err := launch("epmd", cmd, i.output("epmd"))
	if err != nil {
		return nil, err
	}
	err = c.awaitAnswer(ctx, func(ctx context.Context) error {
		conn, err := dial(ctx, i.Ports.EPMD)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if errors.Is(err, errExited) {
		err = fmt.Errorf("%w: %w", err, ErrPortTaken) // the one reason why it does
	}
	if err != nil {
		return c, fmt.Errorf("start epmd on %s: %w", loopback(i.Ports.EPMD), err)
	}
	return c, nil
}

// startRabbitMQ starts the broker on what data it finds and returns when clients
// can use it. The child is to be killed also when there is an error.
func startRabbitMQ(ctx context.Context, i Info) (*child, error) {
	// Left by a broker that was killed, it would name a process of the past.
	if err := os.Remove(i.brokerPIDFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("start RabbitMQ: %w", err)
	}
	cmd := exec.Command(i.Binaries.RabbitMQServer)
	cmd.Env = i.erlangEnv()
	cmd.Dir = i.home()
	c, err := launch("RabbitMQ", cmd, i.output("rabbitmq"))
	if err != nil {
		return nil, err
	}
	err = c.awaitAnswer(ctx, func(ctx context.Context) error {
		name, _, _ := strings.Cut(i.Node, "@")
		return shakeHands(ctx, i.Ports.AMQP, name+"@")
	})
	if err != nil {
		return c, fmt.Errorf("start RabbitMQ on %s: %w", loopback(i.Ports.AMQP), i.withLog(err, []string{"eaddrinuse", "dist_port_already_used"},
			i.output("rabbitmq"), filepath.Join(i.logDir(), i.Node+".log")))
	}
	// What was started is the script. The broker is whom the file names.
	text, err := os.ReadFile(i.brokerPIDFile())
	if err != nil {
		return c, fmt.Errorf("start RabbitMQ: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return c, fmt.Errorf("start RabbitMQ: read %s: %w", i.brokerPIDFile(), err)
	}
	if c.main, err = identify(pid); err != nil {
		return c, fmt.Errorf("start RabbitMQ: %w", err)
	}
	return c, nil
}

// errExited is a server that ended before it answered.
var errExited = errors.New("it exited")

// errStranger is an answer from a server that isn't ours.
var errStranger = fmt.Errorf("another server answers there: %w", ErrPortTaken)

// awaitAnswer asks until there is an answer. It gives up when the server has
// exited, a stranger answers, or ctx ends, and then says what the last ask said.
func (c *child) awaitAnswer(ctx context.Context, ask func(context.Context) error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	// Whoever has taken its port may never answer, so its exit ends the ask.
	asking, leave := context.WithCancel(ctx)
	left := make(chan struct{})
	go func() {
		defer close(left)
		select {
		case <-c.exited:
			leave()
		case <-asking.Done():
		}
	}()
	defer func() {
		leave()
		<-left
	}()
	for {
		err := ask(asking)
		if err == nil || errors.Is(err, errStranger) {
			return err
		}
		select {
		case <-c.exited:
			return errExited
		case <-ctx.Done():
			return fmt.Errorf("%w, last: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// withLog adds the ends of a server's logs to its error, and [ErrPortTaken] if
// they have one of the server's words for that.
func (i Info) withLog(err error, taken []string, logs ...string) error {
	var ends []string
	for _, path := range logs {
		if end := tail(path, 12); end != "" {
			ends = append(ends, "the end of "+filepath.Base(path)+":\n"+end)
		}
	}
	text := strings.Join(ends, "\n")
	if errors.Is(err, errExited) && slices.ContainsFunc(taken, func(word string) bool {
		return strings.Contains(text, word)
	}) {
		err = fmt.Errorf("%w: %w", err, ErrPortTaken)
	}
	if text == "" {
		return err
	}
	return fmt.Errorf("%w\n%s", err, text)
}

func dial(ctx context.Context, port int) (net.Conn, error) {
	d := net.Dialer{Timeout: 2 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", loopback(port))
	if err != nil {
		return nil, err
	}
	// A server that takes the connection and says nothing is asked again.
	return conn, conn.SetDeadline(time.Now().Add(10 * time.Second))
}
