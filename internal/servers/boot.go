package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"

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

func (h *held) openOnce(ctx context.Context, o opening) error {
	ports, err := h.choose()
	if err != nil {
		return err
	}
	for _, wanted := range []struct {
		port int
		at   *int
	}{{o.AMQPPort, &ports.AMQP}, {o.RedisPort, &ports.Redis}} {
		if wanted.port == 0 {
			continue
		}
		if err := checkFree(wanted.port); err != nil {
			return err
		}
		*wanted.at = wanted.port
	}
	h.info.Ports = ports
	h.info.Node = "nl" + strings.ToLower(rand.Text()[:8]) + "@localhost"
	h.info.AMQPURL = "amqp://guest:guest@" + loopback(ports.AMQP) + "/"
	h.info.RedisURL = "redis://" + loopback(ports.Redis) + "/0"
	if err := h.info.lay(); err != nil {
		return fmt.Errorf("prepare %s: %w", h.info.Dir, err)
	}

	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if h.epmd, err = startEPMD(ctx, h.info); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	booting, booted := context.WithCancel(ctx)
	g.Go(func() (err error) {
		h.redis, err = startRedis(ctx, h.info)
		return err
	})
	g.Go(func() (err error) {
		defer booted()
		h.rabbitmq, err = startRabbitMQ(ctx, h.info)
		return err
	})
	g.Go(func() error {
		select {
		case <-h.epmd.exited:
			// Somebody else had its port and answered there, and RabbitMQ
			// registers with, or waits for, a stranger.
			return fmt.Errorf("start epmd on %s: %w", loopback(ports.EPMD), ErrPortTaken)
		case <-booting.Done():
			return nil
		}
	})
	if err := g.Wait(); err != nil {
		return err
	}
	h.info.EPMD, h.info.RabbitMQ, h.info.Redis = h.epmd.main, h.rabbitmq.main, h.redis.main
	return nil
}

// lay makes the directories and files that the servers expect, and none from a
// boot before.
func (i Info) lay() error {
	if err := os.RemoveAll(i.run()); err != nil {
		return err
	}
	for _, dir := range []string{i.home(), i.redisDir(), i.logDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return os.WriteFile(i.pluginsFile(), []byte("[].\n"), 0o600)
}

// restart starts a server that was stopped, killed or has died, where it was.
func (h *held) restart(ctx context.Context, s Server) (err error) {
	server, err := h.child(s)
	if err != nil {
		return err
	}
	if (*server).running() {
		return fmt.Errorf("start %s: it runs", s)
	}
	// One that died by itself has left its group.
	if err := (*server).kill(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	switch s {
	case RabbitMQ:
		if h.rabbitmq, err = startRabbitMQ(ctx, h.info); err == nil {
			h.info.RabbitMQ = h.rabbitmq.main
		}
	case Redis:
		if h.redis, err = startRedis(ctx, h.info); err == nil {
			h.info.Redis = h.redis.main
		}
	}
	if err != nil {
		return errors.Join(err, (*server).kill(context.WithoutCancel(ctx)))
	}
	return nil
}

// killAll ends all servers, and keeps what they wrote.
func (h *held) killAll(ctx context.Context) error {
	// RabbitMQ before the epmd that it would miss.
	return errors.Join(h.rabbitmq.kill(ctx), h.redis.kill(ctx), h.epmd.kill(ctx))
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
