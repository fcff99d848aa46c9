package servers

import (
	"fmt"
	"slices"
	"strings"
)

// Server is one of the servers of a pair: RabbitMQ, or Redis. Where a pair has
// several nodes of one kind, that is the first, and the others have numbers.
type Server string

// The servers of a pair that has one of each.
const (
	RabbitMQ Server = "RabbitMQ"
	Redis    Server = "Redis"
)

// Nth returns a node of the same kind, counted from 1.
func (s Server) Nth(n int) Server {
	if n == 1 {
		return s
	}
	return Server(fmt.Sprintf("%s %d", s, n))
}

// A Member is one of the servers, as it is now.
type Member struct {
	Server   Server  `json:"server"`
	Node     string  `json:"node,omitempty"` // RabbitMQ's name among Erlang nodes
	Port     int     `json:"port"`           // for clients
	PeerPort int     `json:"peer_port"`      // for other nodes and rabbitmqctl: Erlang's distribution, a Redis Cluster's bus
	Process  Process `json:"process"`
}

func (m Member) isRabbitMQ() bool { return strings.HasPrefix(string(m.Server), string(RabbitMQ)) }

// file is what a member's files are called.
func (m Member) file() string {
	return strings.ReplaceAll(strings.ToLower(string(m.Server)), " ", "-")
}

// Member returns one of the servers; of one that isn't there nothing is set.
func (i Info) Member(s Server) Member {
	if at := i.at(s); at >= 0 {
		return i.Members[at]
	}
	return Member{}
}

func (i Info) at(s Server) int {
	return slices.IndexFunc(i.Members, func(m Member) bool { return m.Server == s })
}

// of returns the members of one kind.
func (i Info) of(rabbitMQ bool) (all []Member) {
	for _, m := range i.Members {
		if m.isRabbitMQ() == rabbitMQ {
			all = append(all, m)
		}
	}
	return all
}

// Dead returns the servers whose processes have ended, those that Stop ended included.
func (i Info) Dead() []Member {
	return slices.DeleteFunc(slices.Clone(i.Members), func(m Member) bool { return m.Process.Alive() })
}

// livingNode is the RabbitMQ to be asked about all: the first that lives, else the
// first.
func (i Info) livingNode() Member {
	all := i.of(true)
	if at := slices.IndexFunc(all, func(m Member) bool { return m.Process.Alive() }); at > 0 {
		return all[at]
	}
	return all[0]
}

// addresses joins where some members listen.
func addresses(all []Member, before, after, between string) string {
	var urls []string
	for _, m := range all {
		urls = append(urls, before+loopback(m.Port)+after)
	}
	return strings.Join(urls, between)
}

// urls are those of a pair, with all its nodes.
func (i Info) urls() (amqp, redis string) {
	amqp = addresses(i.of(true), "amqp://guest:guest@", "/", ",")
	all := i.of(false)
	if redis = addresses(all[:1], "redis://", "/0", ""); len(all) > 1 {
		redis += "?" + addresses(all[1:], "addr=", "", "&")
	}
	return amqp, redis
}
