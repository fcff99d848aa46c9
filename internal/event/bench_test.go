package event

import (
	"testing"
	"time"
)

// said is an event as a worker says thousands.
func said() Event {
	return Event{
		Time: time.Now(), Kind: Claimed, Source: "push-worker-1", PID: 4711, ID: "dc67i9hksdu9ckfdcq7g", Channel: "push", User: "42",
		Key: "notification:dc67i9hksdu9ckfdcq7g:push:42", State: "pending", TTLMS: 10000,
	}
}

func BenchmarkAppend(b *testing.B) {
	e := said()
	line := Encode(e)
	b.ReportAllocs()
	for b.Loop() {
		line = Append(line[:0], e)
	}
}

func BenchmarkDecode(b *testing.B) {
	line := Encode(Event{Time: time.Now(), Kind: Sent, Source: "push-worker-1", PID: 4711, ID: "dc67i9hksdu9ckfdcq7g", Channel: "push", User: "42", Text: "your pass expires tomorrow"})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(line); err != nil {
			b.Fatal(err)
		}
	}
}
