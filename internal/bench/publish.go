package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
)

const (
	publishBare = "publish/bare"
	produce     = "publish/produce"
)

func (b *bench) publish(ctx context.Context) error {
	return b.compare(ctx, way{name: publishBare, run: b.publishBare}, way{name: produce, run: b.publishProduce})
}

// publishProduce is notifylab produce itself, as a process that tells of each message,
// by its own closing line. That counts as the bare client is counted: from before the
// first message is made, when the channel is open, until the last one's fate is known,
// and here told.
func (b *bench) publishProduce(ctx context.Context) (pace, error) {
	defer b.drop(ctx)
	b.fills++
	cmd := exec.CommandContext(ctx, b.Program, "produce", "--channel", "push", "--count", strconv.Itoa(b.Messages),
		"--id", fmt.Sprintf("b%d", b.fills), "--text", text, "--namespace", string(b.Namespace), "-o", "json",
		"--declare=false")
	cmd.Env = b.Env
	out, err := cmd.Output()
	if err != nil {
		return pace{}, fmt.Errorf("notifylab produce: %w", err)
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	var sum struct {
		Kind      string `json:"kind"`
		Confirmed int    `json:"confirmed"`
		ElapsedMS int64  `json:"elapsed_ms"`
	}
	if err := json.Unmarshal(lines[len(lines)-1], &sum); err != nil || sum.Kind != "produced" || sum.Confirmed != b.Messages || sum.ElapsedMS == 0 {
		return pace{}, fmt.Errorf("notifylab produce ended with %q", lines[len(lines)-1])
	}
	return pace{perS: float64(sum.Confirmed) / float64(sum.ElapsedMS) * 1000}, nil
}
