package lab

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifylab/internal/event"
)

// How long an event takes in the journal, and how much of that is Redis's work, in a
// stream that is full.
func BenchmarkJournal(b *testing.B) {
	c, _ := dial(b)
	ns := place(b, c)
	j := openJournal(b, c, ns)
	j.length = 10_000
	e := event.Event{
		Time: time.Now(), Kind: event.Claimed, Source: "push-worker-1", PID: 4711, ID: "dc67i9hksdu9ckfdcq7g", Channel: "push", User: "42",
		Key: "notification:dc67i9hksdu9ckfdcq7g:push:42", State: "pending", TTLMS: 10000,
	}
	add := func(n int) {
		for i := range n {
			j.Add(e)
			if i%5000 == 4999 || i == n-1 {
				if err := j.Flush(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	add(2 * int(j.length))
	before := serverTime(b, c)
	b.ReportAllocs()
	b.ResetTimer()
	add(b.N)
	b.StopTimer()
	n := float64(b.N)
	b.ReportMetric(float64((serverTime(b, c)-before).Nanoseconds())/n, "redis-ns/op")
	b.ReportMetric(n/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(c.MemoryUsage(context.Background(), journalKey(ns), 0).Val())/float64(j.length), "B/event")
}

// serverTime is how long Redis has worked, ever.
func serverTime(b *testing.B, c Client) (d time.Duration) {
	b.Helper()
	info, err := c.Info(context.Background(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			s, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			d += time.Duration(s * float64(time.Second))
		}
	}
	return d
}
