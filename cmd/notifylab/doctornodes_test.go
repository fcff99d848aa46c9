package main

import (
	"errors"
	"testing"

	"notifylab/internal/idem"
)

func TestDoctor_nodes(t *testing.T) {
	t.Parallel()
	rabbitNodesSymptom(3, nil).want(t, fine, "3 of 3 answer", "")
	rabbitNodesSymptom(3, []string{"does not answer at h:1: refused"}).want(t, warning, "2 of 3 answer; does not answer at h:1: refused", "start it again")
	rabbitNodesSymptom(3, []string{"a", "b"}).want(t, bad, "1 of 3 answer; a; b", "start it again")
	rabbitNodesSymptom(2, []string{"a"}).want(t, bad, "1 of 2 answer; a", "start it again")

	redisNodesSymptom(idem.Cluster{Serves: true, Nodes: 6}, nil).want(t, fine, "6 of 6 answer, each master has a replica", "")
	redisNodesSymptom(idem.Cluster{Serves: true, Nodes: 6, Down: []string{"h:1"}, Alone: []string{"h:2"}}, nil).
		want(t, warning, "5 of 6 answer; h:1 does not; h:2 has no replica", "start it again")
	redisNodesSymptom(idem.Cluster{Nodes: 3, Down: []string{"h:1"}}, nil).want(t, bad, "2 of 3 answer; h:1 does not; some keys are served by nobody", "start it again")
	redisNodesSymptom(idem.Cluster{}, errors.New("NOPERM")).want(t, unseen, "NOPERM", "")
}
