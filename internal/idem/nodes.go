package idem

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A Cluster is what the nodes of a Redis Cluster say of each other.
type Cluster struct {
	Serves bool     // all keys: cluster_state
	Nodes  int      // how many there are, or should be
	Down   []string // host:port of those that do not answer the others
	Alone  []string // masters that have keys and no replica that answers
}

// ExamineCluster asks a Redis Cluster about its nodes. ok is false if c is a client of
// anything else.
func ExamineCluster(ctx context.Context, c Client) (all Cluster, ok bool, err error) {
	if _, ok = c.(*redis.ClusterClient); !ok {
		return all, false, nil
	}
	info, err := c.ClusterInfo(ctx).Result()
	if err != nil {
		return all, true, fmt.Errorf("ask Redis for CLUSTER INFO: %w", err)
	}
	nodes, err := c.ClusterNodes(ctx).Result()
	if err != nil {
		return all, true, fmt.Errorf("ask Redis for CLUSTER NODES: %w", err)
	}
	all = parseNodes(nodes)
	all.Serves = strings.Contains(info, "cluster_state:ok")
	return all, true, nil
}

// parseNodes reads the answer to CLUSTER NODES, a line for each: id, address, flags,
// the master of a replica, four numbers, and the slots.
// (redis.io/docs/latest/commands/cluster-nodes)
func parseNodes(text string) (all Cluster) {
	masters, replicas := map[string]string{}, map[string]bool{} // by the master's id
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			continue
		}
		addr, _, _ := strings.Cut(fields[1], "@")
		flags := strings.Split(fields[2], ",")
		all.Nodes++
		switch {
		case slices.Contains(flags, "fail"), slices.Contains(flags, "fail?"):
			all.Down = append(all.Down, addr)
		case slices.Contains(flags, "slave"):
			replicas[fields[3]] = true
		case len(fields) > 8:
			masters[fields[0]] = addr
		}
	}
	for id, addr := range masters {
		if !replicas[id] {
			all.Alone = append(all.Alone, addr)
		}
	}
	slices.Sort(all.Down)
	slices.Sort(all.Alone)
	return all
}
