package idem

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Client is the one client of Redis that the whole program shares.
type Client = redis.UniversalClient

// Timeout is how long one command may take, and one retry the same: a command
// has failed after twice that.
const Timeout = time.Second

// ErrURL says that a URL does not parse. The URL is not in the error: it may
// hold a password.
var ErrURL = errors.New("not a Redis URL (redis://user:password@host:6379/0; a Cluster: redis://host:6379?addr=host2:6379; Sentinels: redis://host:26379?master_name=name&password=redis-password&addr=host2:26379)")

// ErrTLS says that something answered with a certificate that is not trusted.
var ErrTLS = errors.New("no trusted TLS connection")

// An UnreachableError says that Redis did not answer, or refused.
type UnreachableError struct {
	Addr string // host:port, of several nodes with commas between
	Err  error
}

func (e *UnreachableError) Error() string {
	if answered(e.Err) {
		return fmt.Sprintf("Redis at %s refuses: %v", e.Addr, reason(e.Err))
	}
	return fmt.Sprintf("Redis does not answer at %s: %v", e.Addr, reason(e.Err))
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// Refused says that Redis answered and would not have us: a password, say. To
// try again is of no use. What passes by itself is no refusal.
func (e *UnreachableError) Refused() bool {
	for _, state := range []string{
		"LOADING", "BUSY", "MISCONF", "OOM", "READONLY", "NOREPLICAS",
		"MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "max number of clients",
	} {
		if redis.HasErrorPrefix(e.Err, state) {
			return false
		}
	}
	return answered(e.Err)
}

// answered says whether err is Redis's own word.
func answered(err error) bool {
	var r redis.Error
	return errors.As(err, &r)
}

// reason is the innermost cause: connection refused.
func reason(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		err = op.Err
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// A ClusterError says that a URL of one server names a node of a Cluster, of which
// others have some of the keys.
type ClusterError struct {
	Addr string // host:port
	URL  string // one of the whole Cluster; user and password are words in it
}

func (e *ClusterError) Error() string {
	return fmt.Sprintf("Redis at %s is a Cluster, but --redis-url names one node of it", e.Addr)
}

// asCluster returns a [ClusterError] if c is a client of one server, and there are
// others beside it that have keys.
func asCluster(ctx context.Context, c Client, rawURL string) error {
	one, ok := c.(*redis.Client)
	t, err := parse(rawURL)
	if !ok || err != nil || t.one == nil {
		return nil
	}
	shards, err := one.ClusterShards(ctx).Result()
	if err != nil { // it is no Cluster, or does not tell
		return nil
	}
	var masters []string
	for _, shard := range shards {
		for _, n := range shard.Nodes {
			port := n.Port
			if t.one.TLSConfig != nil {
				port = n.TLSPort
			}
			if len(shard.Slots) > 0 && n.Role == "master" {
				masters = append(masters, net.JoinHostPort(host(n, t.one.Addr), strconv.FormatInt(port, 10)))
			}
		}
	}
	if len(masters) < 2 {
		return nil
	}
	scheme, _, _ := strings.Cut(rawURL, "://")
	who := ""
	if strings.Contains(rawURL, "@") {
		who = "user:password@"
	}
	return &ClusterError{t.one.Addr, scheme + "://" + who + masters[0] + "?addr=" + strings.Join(masters[1:], "&addr=")}
}

// host is by what name a node of a Cluster can be reached, as far as it tells: it may
// have none to tell, and then it is where the one that told it is.
func host(n redis.Node, addr string) string {
	for _, name := range []string{n.Endpoint, n.IP} {
		if hostName.MatchString(name) {
			return name
		}
	}
	name, _, _ := net.SplitHostPort(addr)
	return name
}

var hostName = regexp.MustCompile(`^[0-9A-Za-z.:-]+$`)

// Ping returns nil when Redis answers at rawURL through c, else an
// [UnreachableError], [ErrTLS] or a [ClusterError].
func Ping(ctx context.Context, c Client, rawURL string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*Timeout)
	defer cancel()
	if err := c.Ping(ctx).Err(); err != nil {
		addr, _ := Addr(rawURL)
		var untrusted *tls.CertificateVerificationError
		if errors.As(err, &untrusted) {
			return fmt.Errorf("%s: %w: %w", "Redis at "+addr, ErrTLS, reason(err))
		}
		return &UnreachableError{Addr: addr, Err: err}
	}
	return asCluster(ctx, c, rawURL)
}

// Version returns the version of the server: 7.0.15.
func Version(ctx context.Context, c Client) (string, error) {
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return "", fmt.Errorf("ask Redis for its version: %w", err)
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); ok {
			return v, nil
		}
	}
	return "?", nil
}
