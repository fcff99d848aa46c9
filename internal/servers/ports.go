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

// Ports are the pair's ports, all on 127.0.0.1.
type Ports struct {
	AMQP         int `json:"amqp"`
	Redis        int `json:"redis"`
	EPMD         int `json:"epmd"`
	Distribution int `json:"distribution"` // between Erlang nodes: rabbitmqctl
}

// Where ports are chosen: above what services are usually given, below what
// Linux (32768) and macOS (49152) hand to outgoing connections.
const lowestPort, highestPort = 20000, 32000

// freePorts chooses four different ports that nobody listened on just now.
func freePorts() (Ports, error) {
	var chosen [4]int
	for i := range chosen {
		port, ln, err := listenAnywhere()
		if err != nil {
			return Ports{}, err
		}
		// All are kept open until the last is chosen, so that they differ.
		defer ln.Close()
		chosen[i] = port
	}
	return Ports{AMQP: chosen[0], Redis: chosen[1], EPMD: chosen[2], Distribution: chosen[3]}, nil
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
