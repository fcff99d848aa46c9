package broker

import "context"

// Compare returns how many of the topology's queues are there. If one has other
// arguments the error is a [ConflictError]. It makes none: a declare of a queue
// that is there with equal arguments does nothing.
func (c *Conn) Compare(ctx context.Context, t Topology) (there int, err error) {
	for _, q := range t.queues() {
		_, _, ok, err := c.Ready(ctx, q.name)
		if err != nil {
			return there, err
		}
		if !ok {
			continue
		}
		there++
		if err := c.declare(ctx, q); err != nil {
			return there, err
		}
	}
	return there, nil
}
