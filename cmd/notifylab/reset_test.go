package main

import (
	"fmt"
	"syscall"
	"testing"

	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
)

// A worker that lives through a reset has all of its queues again, and they are
// listed: also when the reset takes longer than the worker takes to come back, which
// names of queues that are long gone see to here.
func TestReset_under_a_worker(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	client, err := idem.Dial(c.redis, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var gone []string
	for i := range 1000 {
		gone = append(gone, fmt.Sprintf("%s.gone.%d", c.ns, i))
	}
	if err := lab.NewNotes(client, notify.Namespace(c.ns), 0).Declared(t.Context(), "quorum", gone...); err != nil {
		t.Fatal(err)
	}
	w := c.start("worker", "push")
	w.awaitLine("READY")
	c.run("reset", "--yes").wantStatus(exitOK)
	w.awaitLines(2, "READY")

	look := c.start("queues", "-w")
	for _, queue := range []string{"notify.push ", "notify.push.retry.500ms ", "notify.push.retry.1s ", "push.dlq "} {
		look.awaitLine(" " + queue)
	}
	for _, r := range []*running{look, w} {
		r.signal(syscall.SIGINT)
		r.wantStatus(exitOK)
	}
}
