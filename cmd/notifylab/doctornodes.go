package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/idem"
)

// Of several nodes one that answers is enough to work, and hides those that don't.

// examineNodes dials each node of RabbitMQ, if there are several.
func (a *app) examineNodes(ctx context.Context, tell func(symptom)) {
	nodes, err := broker.Nodes(a.amqpURL)
	if err != nil || len(nodes) < 2 {
		return
	}
	var silent []string
	for _, node := range nodes {
		one := a.broker("doctor", 10*time.Second, 5*time.Second)
		one.URL = node
		conn, err := broker.Dial(ctx, one)
		if err == nil {
			err = conn.Close()
		}
		if err != nil {
			silent = append(silent, strings.TrimPrefix(err.Error(), "RabbitMQ "))
		}
	}
	tell(rabbitNodesSymptom(len(nodes), silent))
}

func rabbitNodesSymptom(all int, silent []string) symptom {
	s := symptom{What: "RabbitMQ nodes", Status: fine, Is: fmt.Sprintf("%d of %d answer", all-len(silent), all)}
	if len(silent) > 0 {
		s.Status, s.Is = warning, s.Is+"; "+strings.Join(silent, "; ")
		s.Do = "start it again: a quorum queue serves nobody when half of its nodes are away"
	}
	if 2*len(silent) >= all {
		s.Status = bad
	}
	return s
}

// redisNodesSymptom is of a Cluster, which may not have told.
func redisNodesSymptom(c idem.Cluster, err error) symptom {
	if err != nil {
		return symptom{What: "Redis nodes", Status: unseen, Is: err.Error()}
	}
	s := symptom{What: "Redis nodes", Status: fine, Is: fmt.Sprintf("%d of %d answer, each master has a replica", c.Nodes, c.Nodes)}
	if len(c.Down)+len(c.Alone) > 0 || !c.Serves {
		s.Status, s.Is = warning, fmt.Sprintf("%d of %d answer", c.Nodes-len(c.Down), c.Nodes)
		s.Do = "start it again, or add a replica: a master that dies without one takes its records along, and its keys are served by nobody"
	}
	for _, addr := range c.Down {
		s.Is += "; " + addr + " does not"
	}
	for _, addr := range c.Alone {
		s.Is += "; " + addr + " has no replica"
	}
	if !c.Serves {
		s.Status, s.Is = bad, s.Is+"; some keys are served by nobody"
	}
	return s
}
