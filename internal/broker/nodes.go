package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Nodes splits the URL of a broker into those of its nodes: one, or several with
// commas between. A comma that no amqp:// or amqps:// follows belongs to its URL,
// to the password say. If one does not parse it is [ErrURL].
func Nodes(rawURL string) ([]string, error) {
	var nodes []string
	for part := range strings.SplitSeq(rawURL, ",") {
		node := strings.TrimSpace(part)
		begins := strings.HasPrefix(node, "amqp://") || strings.HasPrefix(node, "amqps://")
		switch last := len(nodes) - 1; {
		case begins:
			nodes = append(nodes, node)
		case node == "" || last < 0:
			return nil, ErrURL
		default:
			nodes[last] += "," + part
		}
	}
	for _, node := range nodes {
		if u, err := amqp.ParseURI(node); err != nil || strings.Contains(u.Host, ",") {
			return nil, ErrURL
		}
	}
	return nodes, nil
}

// Addr returns host:port of each node of an AMQP URL, for people: h1:5672, h2:5672.
// A URL that does not parse is said to be [ErrURL].
func Addr(rawURL string) (string, error) {
	nodes, err := Nodes(rawURL)
	if err != nil {
		return "", err
	}
	var addrs []string
	for _, node := range nodes {
		addrs = append(addrs, addrOf(node))
	}
	return strings.Join(addrs, ", "), nil
}

// addrOf returns host:port of one node, whose URL has been parsed before.
func addrOf(node string) string {
	u, _ := amqp.ParseURI(node)
	return net.JoinHostPort(u.Host, strconv.Itoa(u.Port))
}

// Dial connects once, to the first node that answers, in the order of the URL. A
// node that does not take the user, the password or the virtual host has answered:
// the others would say the same. One whose certificate is not trusted is passed over
// like one that is silent, and told of if none answers. It returns [ErrURL], an
// [UnreachableError], [ErrTLS], [ErrAccessRefused] or [ErrNoVhost], wrapped with host
// and port (of all nodes, if none answers) and without the password. If ctx or the
// time-out ends it, it is an [UnreachableError] that wraps the cause. A node may take an
// equal share of what is left of the time-out, so that one which is silent leaves some
// to the next.
func Dial(ctx context.Context, cfg Config) (*Conn, error) {
	nodes, err := Nodes(cfg.URL)
	if err != nil {
		return nil, err
	}
	var silent silence
	var untrusted error
	for left, i := cfg.Timeout, 0; i < len(nodes); i++ {
		began := time.Now()
		cfg.URL = nodes[i]
		cfg.Timeout = (left / time.Duration(len(nodes)-i)).Round(time.Millisecond)
		c, err := dial(ctx, cfg)
		left -= time.Since(began)
		var unreachable *UnreachableError
		switch {
		case errors.As(err, &unreachable):
			silent = append(silent, unreachable)
		case errors.Is(err, ErrTLS):
			untrusted = cmp.Or(untrusted, err)
		default:
			return c, err
		}
		if ctx.Err() != nil {
			break
		}
	}
	switch {
	case untrusted == nil:
		return nil, silent.error()
	case len(silent) > 0:
		return nil, fmt.Errorf("%w; %w", untrusted, silent.error())
	}
	return nil, untrusted
}

// silence is what dialling each of some nodes came to.
type silence []*UnreachableError

func (s silence) error() *UnreachableError {
	if len(s) == 1 {
		return s[0]
	}
	var addrs []string
	for _, e := range s {
		addrs = append(addrs, e.Addr)
	}
	return &UnreachableError{Addr: strings.Join(addrs, ", "), Err: s}
}

// Error gives the reasons: one if they are the same, else each with its node.
func (s silence) Error() string {
	var reasons, named []string
	for _, e := range s {
		reason := rootCause(e.Err).Error()
		reasons = append(reasons, reason)
		named = append(named, fmt.Sprintf("%s: %s", e.Addr, reason))
	}
	if len(slices.Compact(reasons)) == 1 {
		return reasons[0]
	}
	return strings.Join(named, "; ")
}

func (s silence) Unwrap() []error {
	var all []error
	for _, e := range s {
		all = append(all, e)
	}
	return all
}
