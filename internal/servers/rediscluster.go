package servers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A Cluster has three masters, the least with which one can die and the others
// agree on it, and a replica of each.
const (
	clusterMasters = 3
	clusterNodes   = 2 * clusterMasters
	clusterSlots   = 16384
)

// clusterOptions make a Redis a node of a Cluster that does not exist yet.
func clusterOptions(m Member) []string {
	return []string{
		"--cluster-enabled", "yes",
		// By default it is the port and 10000, which can be out of range or taken.
		"--cluster-port", strconv.Itoa(m.PeerPort),
		// A master that is silent for so long is dead, and its replica's turn comes.
		"--cluster-node-timeout", "3000",
		// One master's death stops what is in its slots, and nothing else.
		"--cluster-require-full-coverage", "no",
		"--repl-diskless-sync-delay", "0",
	}
}

// formCluster makes empty nodes one Cluster, and returns when each knows all the
// others and every master has a replica that has what it has.
func formCluster(ctx context.Context, all []Member) error {
	ids := make([]string, len(all))
	for i, m := range all {
		words := []string{"CLUSTER MYID", fmt.Sprintf("CLUSTER SET-CONFIG-EPOCH %d", i+1)}
		if i < clusterMasters {
			first, next := i*clusterSlots/clusterMasters, (i+1)*clusterSlots/clusterMasters
			words = append(words, fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", first, next-1))
		}
		if i > 0 {
			words = append(words, fmt.Sprintf("CLUSTER MEET 127.0.0.1 %d %d", all[0].Port, all[0].PeerPort))
		}
		answers, err := say(ctx, m.Port, words...)
		if err != nil {
			return fmt.Errorf("make %s a node of a Cluster: %w", m.Server, err)
		}
		ids[i] = answers[0]
	}
	if err := eachKnows(ctx, all, ids, "CLUSTER NODES", func(nodes string) bool { return mentions(nodes, ids) }); err != nil {
		return fmt.Errorf("make the Redis Cluster known to its nodes: %w", err)
	}
	for i, m := range all[clusterMasters:] {
		if _, err := say(ctx, m.Port, "CLUSTER REPLICATE "+ids[i]); err != nil {
			return fmt.Errorf("make %s a replica: %w", m.Server, err)
		}
	}
	err := eachKnows(ctx, all, ids, "CLUSTER NODES", func(nodes string) bool {
		return strings.Count(nodes, "slave ") == clusterNodes-clusterMasters
	})
	if err == nil {
		err = eachKnows(ctx, all, ids, "CLUSTER INFO", func(info string) bool { return strings.Contains(info, "cluster_state:ok") })
	}
	if err == nil {
		err = eachKnows(ctx, all[:clusterMasters], ids, "INFO replication", func(info string) bool { return strings.Contains(info, "state=online") })
	}
	if err != nil {
		return fmt.Errorf("await the Redis Cluster: %w", err)
	}
	return nil
}

func mentions(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// eachKnows asks every node until its answer is good.
func eachKnows(ctx context.Context, all []Member, ids []string, question string, good func(string) bool) error {
	for i, m := range all {
		var last string
		err := await(ctx, func() bool {
			answers, err := say(ctx, m.Port, question)
			if err != nil {
				last = err.Error()
				return false
			}
			last = answers[0]
			return good(last)
		})
		if err != nil {
			return fmt.Errorf("%s, %s: %w, last: %s", m.Server, ids[i], err, last)
		}
	}
	return nil
}

// redisError is a refusal in Redis's own words.
type redisError string

func (e redisError) Error() string { return string(e) }

// say sends commands to the Redis at a port, one after another, and returns their
// answers up to the first that is an error. What isn't a line or a text is
// errStranger's.
func say(ctx context.Context, port int, commands ...string) (answers []string, err error) {
	conn, err := dial(ctx, port)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	in := bufio.NewReader(conn)
	for _, command := range commands {
		if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
			return answers, fmt.Errorf("send %s: %w", command, err)
		}
		answer, err := readAnswer(in)
		if err != nil {
			return answers, fmt.Errorf("%s: %w", command, err)
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

func readAnswer(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	text := strings.TrimRight(line[1:], "\r\n")
	switch line[0] {
	case '+', ':':
		return text, nil
	case '-':
		return "", redisError(text)
	case '$':
		size, err := strconv.Atoi(text)
		if err != nil || size < 0 || size > 1<<20 {
			return "", errStranger
		}
		body := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(in, body); err != nil {
			return "", fmt.Errorf("read the answer: %w", err)
		}
		return string(body[:size]), nil
	}
	return "", errStranger
}
