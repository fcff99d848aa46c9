package notify

import (
	"fmt"
	"strings"
)

// A Channel is a way to reach a person. Each has a work queue, retry queues,
// dead letters and workers of its own; all of those names are made from it.
type Channel string

// The channels there are. Another one is one more line in [Channels].
const (
	Push  Channel = "push"
	Email Channel = "email"
)

// Channels returns every channel, in the order in which an event is published
// to them. All that depends on the channels comes from this list.
func Channels() []Channel { return []Channel{Push, Email} }

// ParseChannel returns the channel of that name, or an error that lists all.
func ParseChannel(name string) (Channel, error) {
	var names []string
	for _, c := range Channels() {
		if string(c) == name {
			return c, nil
		}
		names = append(names, string(c))
	}
	return "", fmt.Errorf("no channel %q: there are %s", name, strings.Join(names, ", "))
}
