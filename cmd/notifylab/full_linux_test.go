package main

import (
	"os/exec"
	"testing"
)

// A disk that is full is no reader that has gone: who has the output has to know.
func TestStdout_on_a_full_disk(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	for _, args := range []string{"queues", "settings", "produce", "bench --only consume/bare --messages 50 --rounds 1 -o json"} {
		r := c.launch(exec.Command("sh", "-c", `exec "$0" `+args+` >/dev/full`, binary(t)))
		r.wantStatus(exitUnavailable)
		if got := r.errorText(); got != "notifylab: standard output: no space left on device" {
			t.Errorf("%s: %s", args, got)
		}
	}
}
