package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// A printer writes events and results on standard output, whole lines that are written
// when it returns, so that a kill loses none and two writers never mix. When nobody
// reads any more, or it can't be written, it calls closed, once.
type printer struct {
	w       *event.Writer
	json    bool
	verbose bool
	palette palette
	ns      notify.Namespace
	// relative lines begin with the time since the first of them, others with
	// the time of day.
	relative bool
	hide     func(event.Event) bool
	closed   func(error)

	mu    sync.Mutex // guards start
	start time.Time
	gone  sync.Once
}

// event prints one event. It may be called from any goroutine.
func (p *printer) event(e event.Event) {
	var room [512]byte
	p.write(p.render(room[:0], e))
}

// encoded prints an event that somebody has made a line of JSON, which is taken if
// that is what is printed.
func (p *printer) encoded(e event.Event, line []byte) {
	switch {
	case !p.json:
		p.event(e)
	case p.hide == nil || !p.hide(e):
		p.write(line)
	}
}

// events prints several in one write, for those who need not tell of each by itself.
func (p *printer) events(all []event.Event) {
	var lines []byte
	for _, e := range all {
		lines = p.render(lines, e)
	}
	p.write(lines)
}

// render appends the event's line, if it has one.
func (p *printer) render(lines []byte, e event.Event) []byte {
	if p.hide != nil && p.hide(e) {
		return lines
	}
	if p.json {
		return event.Append(lines, e)
	}
	if e.Detail && !p.verbose {
		return lines
	}
	c, words, rest, ok := p.palette.line(e, p.ns)
	if !ok {
		return lines
	}
	if words != "" { // else a colour would be switched on and off around nothing
		words = c.Sprint(words)
	}
	return append(lines, p.when(e.Time)+p.source(e.Source)+words+rest+"\n"...)
}

func (p *printer) when(t time.Time) string {
	if !p.relative {
		return p.palette.dim.Sprint(t.Local().Format("15:04:05.000")) + "  "
	}
	p.mu.Lock()
	if p.start.IsZero() {
		p.start = t
	}
	since := t.Sub(p.start)
	p.mu.Unlock()
	return p.palette.dim.Sprintf("  %+.3f", max(0, since.Seconds())) + "  "
}

func (p *printer) source(s string) string {
	s = fmt.Sprintf("%-14s  ", escape(s))
	if s[0] == 's' { // the supervisor is not the story
		return p.palette.dim.Sprint(s)
	}
	return s
}

// linef prints one line of text of our own.
func (p *printer) linef(format string, args ...any) {
	p.write([]byte(fmt.Sprintf(format, args...) + "\n"))
}

// object prints one JSON object.
func (p *printer) object(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // what is printed here always encodes
	}
	p.write(append(b, '\n'))
}

func (p *printer) write(lines []byte) {
	if len(lines) == 0 {
		return
	}
	if _, err := p.w.Write(lines); err != nil && p.closed != nil {
		p.gone.Do(func() { p.closed(err) })
	}
}
