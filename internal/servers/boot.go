package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// open starts the pair. If a port that was chosen here is taken by the time it is
// bound, all is started again with others; a port that was asked for is not
// replaced.
func (h *held) open(ctx context.Context, o opening) error {
	if h.info.Dir != "" {
		return errors.New("open: a pair is open")
	}
	self, err := identify(os.Getpid())
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	h.info = Info{Dir: o.Dir, Binaries: o.Binaries, Holder: self}

	const tries = 5
	for range tries {
		if err = h.openOnce(ctx, o); err == nil {
			return nil
		}
		err = errors.Join(err, h.killAll(context.WithoutCancel(ctx)))
		if !errors.Is(err, ErrPortTaken) || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("%d times, each with other ports: %w", tries, err)
}

func (h *held) openOnce(ctx context.Context, o opening) (err error) {
	if h.info.Members, h.info.EPMDPort, err = h.members(o); err != nil {
		return err
	}
	h.info.AMQPURL, h.info.RedisURL = h.info.urls()
	if err := h.info.lay(); err != nil {
		return fmt.Errorf("prepare %s: %w", h.info.Dir, err)
	}

	ctx, cancel := context.WithTimeout(ctx, startLimit*time.Duration(o.RabbitNodes))
	defer cancel()
	if h.epmd, err = startEPMD(ctx, h.info); err != nil {
		return err
	}
	h.info.EPMD = h.epmd.main
	g, ctx := errgroup.WithContext(ctx)
	booting, booted := context.WithCancel(ctx)
	g.Go(func() error { return h.bootRedis(ctx) })
	g.Go(func() error {
		defer booted()
		return h.bootRabbitMQ(ctx)
	})
	g.Go(func() error {
		select {
		case <-h.epmd.exited:
			// Somebody else had its port and answered there, and RabbitMQ
			// registers with, or waits for, a stranger.
			return fmt.Errorf("start epmd on %s: %w", loopback(h.info.EPMDPort), ErrPortTaken)
		case <-booting.Done():
			return nil
		}
	})
	return g.Wait()
}

// members lists the servers that are to be, each with ports of its own.
func (h *held) members(o opening) (all []Member, epmd int, err error) {
	id := "nl" + strings.ToLower(rand.Text()[:8])
	for n := 1; n <= o.RabbitNodes; n++ {
		node := id
		if n > 1 {
			node += "n" + strconv.Itoa(n)
		}
		all = append(all, Member{Server: RabbitMQ.Nth(n), Node: node + "@localhost"})
	}
	redis := 1
	if o.RedisCluster {
		redis = clusterNodes
	}
	for n := 1; n <= redis; n++ {
		all = append(all, Member{Server: Redis.Nth(n)})
	}
	ports, err := h.choose(1 + 2*len(all))
	if err != nil {
		return nil, 0, err
	}
	wanted := map[Server]int{RabbitMQ: o.AMQPPort, Redis: o.RedisPort}
	for i := range all {
		m := &all[i]
		m.Port, m.PeerPort = ports[1+2*i], ports[2+2*i]
		if port := wanted[m.Server]; port != 0 {
			if err := checkFree(port); err != nil {
				return nil, 0, err
			}
			m.Port = port
		}
	}
	return all, ports[0], nil
}

// now is what is known at this moment.
func (h *held) now() Info {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.info
	i.Members = slices.Clone(i.Members)
	return i
}

// start starts a server. The child is to be killed also when there is an error.
func (h *held) start(ctx context.Context, s Server) error {
	info := h.now()
	m := info.Member(s)
	start := startRedis
	if m.isRabbitMQ() {
		start = startRabbitMQ
	}
	c, err := start(ctx, info, m)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers[s] = c
	if err == nil {
		h.info.Members[h.info.at(s)].Process = c.main
	}
	return err
}

// lay makes the directories and files that the servers expect, and none from a
// boot before.
func (i Info) lay() error {
	if err := os.RemoveAll(i.run()); err != nil {
		return err
	}
	dirs := []string{i.home(), i.logDir()}
	for _, m := range i.of(false) {
		dirs = append(dirs, i.dir(m))
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	// Nodes that start at the same time would each make one.
	if err := os.WriteFile(filepath.Join(i.home(), ".erlang.cookie"), []byte(rand.Text()), 0o400); err != nil {
		return err
	}
	return os.WriteFile(i.pluginsFile(), []byte("[].\n"), 0o600)
}

// restart starts a server that was stopped, killed or has died, where it was.
func (h *held) restart(ctx context.Context, s Server) error {
	server := h.servers[s]
	if server.running() {
		return fmt.Errorf("start %s: it runs", s)
	}
	// One that died by itself has left its group.
	if err := server.kill(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := h.start(ctx, s); err != nil {
		return errors.Join(err, h.servers[s].kill(context.WithoutCancel(ctx)))
	}
	return nil
}

// killAll ends all servers, and keeps what they wrote.
func (h *held) killAll(ctx context.Context) error {
	var errs []error
	for _, m := range h.info.Members { // RabbitMQ before the epmd that it would miss
		errs = append(errs, h.servers[m.Server].kill(ctx))
	}
	return errors.Join(append(errs, h.epmd.kill(ctx))...)
}

// close ends all servers and removes all that they wrote.
func (h *held) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	err := h.killAll(ctx)
	if h.info.Dir == "" {
		return err
	}
	return errors.Join(err, os.RemoveAll(h.info.Dir))
}
