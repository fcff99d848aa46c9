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

	"golang.org/x/sync/errgroup"
)

// erlangEnv is the whole environment of a RabbitMQ and of rabbitmqctl. Nothing is
// inherited: a RABBITMQ_ or ERL_ variable of the caller's could lead into a
// broker that isn't ours.
func (i Info) erlangEnv(m Member) []string {
	in := func(name string) string { return filepath.Join(i.run(), name) }
	// Word-split by the scripts, so no path may be in here.
	const private = "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}"
	server := private
	switch all := i.of(true); {
	case len(all) < 2:
	case m.Server == RabbitMQ: // the others have the name from there, once they have joined
		server += " -rabbit cluster_name " + i.clusterName()
	default: // 4.0 waits for all who are named
		server += " -rabbit cluster_nodes {" + nodeList(all[0], m) + ",disc}"
	}
	return []string{
		"PATH=" + i.Binaries.searchPath(),
		"HOME=" + i.home(), // the cookie lies here
		"TMPDIR=" + i.home(),
		"LANG=C.UTF-8",
		"ERL_CRASH_DUMP_SECONDS=0", // no dump, which can take long
		"ELIXIR_ERL_OPTIONS=+fnu",  // rabbitmqctl warns if file names aren't UTF-8
		"ERL_EPMD_PORT=" + strconv.Itoa(i.EPMDPort),
		"RABBITMQ_NODENAME=" + m.Node,
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		"RABBITMQ_NODE_PORT=" + strconv.Itoa(m.Port),
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(m.PeerPort),
		// No configuration file at all, neither ours nor the machine's: none is
		// needed, and parsing even an empty one takes half a second.
		"RABBITMQ_CONF_ENV_FILE=" + in("none/env"),
		"RABBITMQ_CONFIG_FILE=" + in("none/rabbitmq"),
		"RABBITMQ_CONFIG_FILES=" + in("none/conf.d"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + in("none/advanced.config"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + i.pluginsFile(),
		"RABBITMQ_MNESIA_BASE=" + in("mnesia"),
		"RABBITMQ_LOG_BASE=" + i.logDir(),
		"RABBITMQ_PID_FILE=" + i.brokerPIDFile(m),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=" + server,
		"RABBITMQ_CTL_ERL_ARGS=" + private,
	}
}

// nodeList is an Erlang list of nodes. Their names need no quotes, which would not
// outlive the scripts.
func nodeList(all ...Member) string {
	var names []string
	for _, m := range all {
		names = append(names, m.Node)
	}
	return "[" + strings.Join(names, ",") + "]"
}

// clusterName is how the name begins that the broker has for its cluster. As a rule it
// is made of its node's. Where there are several nodes the first is given one, so that
// who says another has not joined it.
func (i Info) clusterName() string {
	name, _, _ := strings.Cut(i.Members[0].Node, "@")
	if len(i.of(true)) > 1 {
		return name + "_all"
	}
	return name + "@"
}

func (i Info) pluginsFile() string           { return filepath.Join(i.run(), "plugins") }
func (i Info) brokerPIDFile(m Member) string { return filepath.Join(i.run(), m.file()+".pid") }

// startEPMD starts Erlang's port mapper and returns when it listens. Whether it
// is ours that listens is seen when RabbitMQ is up: one that finds its port taken
// exits.
func startEPMD(ctx context.Context, i Info) (*child, error) {
	cmd := exec.Command(i.Binaries.EPMD, "-port", strconv.Itoa(i.EPMDPort), "-address", "127.0.0.1")
	cmd.Env = i.erlangEnv(Member{})
	cmd.Dir = i.home()
	c, err := launch("epmd", cmd, i.output("epmd"))
	if err != nil {
		return nil, err
	}
	err = c.awaitAnswer(ctx, func(ctx context.Context) error {
		conn, err := dial(ctx, i.EPMDPort)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if errors.Is(err, errExited) {
		err = fmt.Errorf("%w: %w", err, ErrPortTaken) // the one reason why it does
	}
	if err != nil {
		return c, fmt.Errorf("start epmd on %s: %w", loopback(i.EPMDPort), err)
	}
	return c, nil
}

// bootRabbitMQ starts all nodes. The others join the first when they boot for the
// first time, so they come when it is there to be found.
func (h *held) bootRabbitMQ(ctx context.Context) error {
	all := h.now().of(true)
	if err := h.start(ctx, all[0].Server); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, m := range all[1:] {
		g.Go(func() error { return h.start(ctx, m.Server) })
	}
	return g.Wait()
}

// startRabbitMQ starts a broker on what data it finds and returns when clients
// can use it. The child is to be killed also when there is an error.
func startRabbitMQ(ctx context.Context, i Info, m Member) (*child, error) {
	// Left by a broker that was killed, it would name a process of the past.
	pidFile := i.brokerPIDFile(m)
	if err := os.Remove(pidFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("start %s: %w", m.Server, err)
	}
	cmd := exec.Command(i.Binaries.RabbitMQServer)
	cmd.Env = i.erlangEnv(m)
	cmd.Dir = i.home()
	c, err := launch(string(m.Server), cmd, i.output(m.file()))
	if err != nil {
		return nil, err
	}
	err = c.awaitAnswer(ctx, func(ctx context.Context) error {
		return shakeHands(ctx, m.Port, i.clusterName())
	})
	if err != nil {
		return c, fmt.Errorf("start %s on %s: %w", m.Server, loopback(m.Port), i.withLog(err, []string{"eaddrinuse", "dist_port_already_used"},
			i.output(m.file()), filepath.Join(i.logDir(), m.Node+".log")))
	}
	// What was started is the script. The broker is whom the file names.
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return c, fmt.Errorf("start %s: %w", m.Server, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return c, fmt.Errorf("start %s: read %s: %w", m.Server, pidFile, err)
	}
	if c.main, err = identify(pid); err != nil {
		return c, fmt.Errorf("start %s: %w", m.Server, err)
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
