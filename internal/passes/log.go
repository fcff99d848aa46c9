package passes

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/notify"
)

// A Log is where events of passes are kept, as a value.
type Log struct {
	Namespace  notify.Namespace
	Partitions int // at least 1; every process must be told the same
}

// Bounds of what a log keeps: enough for any lesson, and it does not grow for ever.
// The broker deletes whole segments of 500 MB, so this is the least that it keeps.
const (
	logBytes = 1 << 30
	logAge   = 7 * 24 * time.Hour
)

// Queue returns the full name of a partition's stream: k7f3.passes.2.
func (l Log) Queue(partition int) string {
	return l.Namespace.Queue("passes." + strconv.Itoa(partition))
}

// Queues returns the names of all partitions' streams, by partition: what has to be
// deleted when the log is of no more use, since a stream doesn't expire.
func (l Log) Queues() []string {
	var names []string
	for p := range l.Partitions {
		names = append(names, l.Queue(p))
	}
	return names
}

// Streams returns the partitions as they are declared.
func (l Log) Streams() []broker.Stream {
	var all []broker.Stream
	for _, name := range l.Queues() {
		all = append(all, broker.Stream{Name: name, MaxBytes: logBytes, MaxAge: logAge})
	}
	return all
}

// Partition returns where the events of a pass belong: the same everywhere and for
// ever, as long as the number of partitions is. With another number most passes move,
// and what was in order no longer is.
func (l Log) Partition(pass string) int {
	sum := sha256.Sum256([]byte(pass))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(l.Partitions))
}
