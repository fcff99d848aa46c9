package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/idem"
	"notifylab/internal/scenario"
	"notifylab/internal/servers"
)

// A place is servers to play on: those that there are, or a pair of our own.
type place struct {
	amqpURL, redisURL string
	versions          versions
	pair              *servers.Pair // nil if it is not ours
}

// place returns where a scenario is to be played. It is found, or started, for the
// first scenario that needs it, and stays until closePlaces.
func (r *runner) place(ctx context.Context, s scenario.Scenario) (*place, error) {
	at, find := &r.usual, r.findServers
	if s.Harms {
		at, find = &r.harmed, r.ownServers
	}
	if *at == nil {
		p, err := find(ctx)
		if err != nil {
			return nil, because(ctx, err)
		}
		if p.versions, err = versionsOf(ctx, p.amqpURL, p.redisURL); err != nil {
			r.close(p)
			return nil, because(ctx, unavailableError{err})
		}
		*at = p
	}
	return *at, nil
}

// spoilt is called when the harmed servers were not left as they were: the next
// one has others.
func (r *runner) spoilt() {
	r.close(r.harmed)
	r.harmed = nil
}

func (r *runner) closePlaces() {
	r.close(r.usual)
	r.close(r.harmed)
}

// findServers uses the servers that answer. If none do and no address was given, it
// starts a private pair.
func (a *app) findServers(ctx context.Context) (*place, error) {
	err := a.tryServers(ctx)
	switch {
	case err == nil:
		return &place{amqpURL: a.amqpURL, redisURL: a.redisURL}, nil
	case a.amqpGiven || a.redisGiven || !isAbsence(err):
		return nil, err
	}
	p, err := a.ownServers(ctx)
	if errors.Is(err, servers.ErrNotInstalled) {
		err = fmt.Errorf("no RabbitMQ and Redis answer, and a private pair needs them installed: %w", err)
	}
	return p, err
}

// ownServers starts a private pair.
func (a *app) ownServers(ctx context.Context) (*place, error) {
	pair, err := a.privatePair(ctx, servers.Options{Holder: holder()})
	if err != nil {
		return nil, err
	}
	return &place{amqpURL: pair.AMQPURL, redisURL: pair.RedisURL, pair: pair}, nil
}

// close stops the servers of a place if they are ours.
func (a *app) close(p *place) {
	if p == nil || p.pair == nil {
		return
	}
	closing, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if err := p.pair.Close(closing); err != nil {
		fmt.Fprintf(a.stderr, "notifylab: stop the private servers: %s\n", escape(err.Error()))
	}
}

// childEnv is the environment of child processes: they get the servers' addresses
// by it, since arguments can be seen by everyone.
func (p *place) childEnv() []string {
	return append(os.Environ(), "AMQP_URL="+p.amqpURL, "REDIS_URL="+p.redisURL)
}

// tryServers returns nil if both servers answer.
func (a *app) tryServers(ctx context.Context) error {
	conn, err := a.dialBroker(ctx, "probe", 5*time.Second)
	if err != nil {
		return err
	}
	conn.Close()
	client, err := idem.Dial(a.redisURL, 1)
	if err != nil {
		return err
	}
	defer client.Close()
	return idem.Ping(ctx, client, a.redisURL)
}

// versions are those of the servers.
type versions struct{ rabbitmq, redis string }

func versionsOf(ctx context.Context, amqpURL, redisURL string) (v versions, err error) {
	conn, err := broker.Dial(ctx, broker.Config{URL: amqpURL, Name: "notifylab probe", Heartbeat: 10 * time.Second, Timeout: 5 * time.Second})
	if err != nil {
		return v, err
	}
	defer conn.Close()
	v.rabbitmq = strings.TrimPrefix(conn.Server(), "RabbitMQ ")
	client, err := idem.Dial(redisURL, 1)
	if err != nil {
		return v, err
	}
	defer client.Close()
	v.redis, err = idem.Version(ctx, client)
	return v, err
}
