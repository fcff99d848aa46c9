package bench

import (
	"context"
	"io"
	"os"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
)

// says makes what writes a worker's events as the program does: as lines into a pipe
// that somebody reads, to the journal, or both. Closing must be called.
func (b *bench) says(client idem.Client, m manner) (say func(event.Event), closing func(), err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, r)
	}()
	out, journal := event.NewWriter(w), lab.NewJournal(client, b.Namespace, time.Hour)
	say = func(e event.Event) {
		var room [512]byte
		line := event.Append(room[:0], e)
		if m.lines {
			_, _ = out.Write(line)
		}
		if m.journal {
			journal.AddLine(line)
		}
	}
	return say, func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
		defer cancel()
		_ = journal.Close(ctx)
		_ = w.Close()
		<-read
		_ = r.Close()
	}, nil
}
