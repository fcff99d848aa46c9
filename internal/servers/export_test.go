package servers

import (
	"context"
	"encoding/json"
	"io"
)

// HoldChoosing is Hold with ports of the test's choosing, and without the
// signals, so that it can run inside the test.
func HoldChoosing(ctx context.Context, in io.Reader, out io.Writer, choose func(n int) ([]int, error)) error {
	return hold(ctx, in, out, choose)
}

// FreePorts is the choice that Hold makes.
func FreePorts(n int) ([]int, error) { return freePorts(n) }

// FindIn is Find in the given directories only.
func FindIn(dirs ...string) (Binaries, error) {
	places := map[string][]string{}
	for _, program := range []string{"rabbitmq-server", "rabbitmqctl", "epmd", "redis-server"} {
		places[program] = dirs
	}
	return find(places, func(string) (string, error) { return "", ErrNotInstalled })
}

// OpenLine is the request that opens a pair.
func OpenLine(dir string, b Binaries) []byte {
	line, err := json.Marshal(request{Number: 1, Do: doOpen, Open: &opening{Dir: dir, Binaries: b, RabbitNodes: 1}})
	if err != nil {
		panic(err)
	}
	return append(line, '\n')
}

// Answer is what the holder says to a request.
type Answer = answer

// Identify records a process that lives.
func Identify(pid int) (Process, error) { return identify(pid) }

// WriteRecord makes the record of a pair that isn't up.
func WriteRecord(ctx context.Context, stateDir string, i Info) error {
	r, err := lockRecord(ctx, stateDir)
	if err != nil {
		return err
	}
	defer r.unlock()
	return r.write(i)
}

// Processes are all that Info names.
func (i Info) Processes() []Process { return i.processes() }
