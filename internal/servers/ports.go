package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// ErrPortTaken is in the chain of an error about a port that something else
// listens on.
var ErrPortTaken = errors.New("port already taken")

// Where ports are chosen: above what services are usually given, below what
// Linux (32768) and macOS (49152) hand to outgoing connections.
const lowestPort, highestPort = 20000, 32000

// freePorts chooses n different ports of 127.0.0.1 that nobody listened on just now.
func freePorts(n int) ([]int, error) {
	chosen := make([]int, n)
	for i := range chosen {
		port, ln, err := listenAnywhere()
		if err != nil {
			return nil, err
		}
		// All are kept open until the last is chosen, so that they differ.
		defer ln.Close()
		chosen[i] = port
	}
	return chosen, nil
}

func listenAnywhere() (int, net.Listener, error) {
	const tries = 200
	var last error
	for range tries {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		ln, err := net.Listen("tcp", loopback(port))
		if err == nil {
			return port, ln, nil
		}
		last = err
	}
	return 0, nil, fmt.Errorf("choose a port between %d and %d: %w", lowestPort, highestPort, last)
}

// checkFree tells a port that the caller insists on from one that is taken,
// before seconds are spent on starting a server for it.
func checkFree(port int) error {
	ln, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return fmt.Errorf("listen on %s: %w (%w)", loopback(port), ErrPortTaken, err)
	}
	return ln.Close()
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
