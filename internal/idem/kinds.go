package idem

import (
	"context"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// A target is what a URL says, in the one form of three that it has.
type target struct {
	one      *redis.Options
	cluster  *redis.ClusterOptions
	sentinel *redis.FailoverOptions
}

// parse reads a URL as the client library does. What makes it one of Sentinels is
// master_name; of a Cluster, addr.
func parse(rawURL string) (t target, err error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return t, ErrURL
	}
	switch q := u.Query(); {
	case q.Has("master_name"):
		t.sentinel, err = redis.ParseFailoverURL(rawURL)
		if err == nil && t.sentinel.MasterName == "" {
			err = ErrURL
		}
	case q.Has("addr"):
		t.cluster, err = redis.ParseClusterURL(rawURL)
		if database := strings.Trim(u.Path, "/"); database != "" && database != "0" {
			err = ErrURL // a Cluster has no other, and the library would say nothing
		}
	default:
		t.one, err = redis.ParseURL(rawURL)
	}
	if err != nil {
		return target{}, ErrURL
	}
	return t, nil
}

// Addr returns host:port of a Redis URL, of several nodes with commas between, or
// [ErrURL].
func Addr(rawURL string) (string, error) {
	t, err := parse(rawURL)
	switch {
	case err != nil:
		return "", err
	case t.sentinel != nil:
		return strings.Join(t.sentinel.SentinelAddrs, ", "), nil
	case t.cluster != nil:
		return strings.Join(t.cluster.Addrs, ", "), nil
	}
	return t.one.Addr, nil
}

// reload is how long a Cluster's client may go on with what it knows of it. It asks
// anew by itself when a node sends it to another, but a master that is dead sends
// nobody: until then its slots stay unreachable, whoever has taken them over. The
// library's own minute is too long for that.
const reload = Timeout

// Dial makes the client of one server, of a Cluster, or of whichever server some
// Sentinels say is the master. It talks to nobody yet: see [Ping]. At most pool
// commands run at once (on a Cluster: on each node), each for at most [Timeout],
// with one retry; to follow a Cluster's redirection is one. Nothing is ever read
// from a replica, whatever the URL says: it may not know of a record yet.
func Dial(rawURL string, pool int) (Client, error) {
	t, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	redis.SetLogger(silent{}) // what fails is returned, and said once
	const (
		wait    = 2 * Timeout // for one of pool
		retries = 1
		dials   = 1
		cut     = true // else a deadline does not cut a command short
	)
	// Whatever waits goes with the next batch: who is left out of it is acked out of
	// turn, which costs the broker more than Redis.
	batches := &redis.AutoPipelineOptions{MaxBatchSize: 1000}
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch {
	case t.sentinel != nil:
		o := t.sentinel
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = Timeout, Timeout, Timeout
		o.PoolSize, o.PoolTimeout, o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = pool, wait, retries, dials, cut
		o.AutoPipelineOptions = batches
		o.ReplicaOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
		return redis.NewFailoverClient(o), nil
	case t.cluster != nil:
		o := t.cluster
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = Timeout, Timeout, Timeout
		o.PoolSize, o.PoolTimeout, o.MaxRedirects, o.DialerRetries, o.ContextTimeoutEnabled = pool, wait, retries, dials, cut
		o.MaxRetries = -1 // of a node's own client: the Cluster's retries
		o.AutoPipelineOptions = batches
		o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
		o.ClusterStateReloadInterval = reload
		o.MaintNotificationsConfig = quiet
		return redis.NewClusterClient(o), nil
	}
	o := t.one
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = Timeout, Timeout, Timeout
	o.PoolSize, o.PoolTimeout, o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = pool, wait, retries, dials, cut
	o.AutoPipelineOptions = batches
	o.MaintNotificationsConfig = quiet
	return redis.NewClient(o), nil
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
