package main

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// A printer writes events and results on standard output, a whole line in one
// write each, so that a kill loses none and two writers never mix. When nobody
// reads any more it calls closed, once.
type printer struct {
	mu      sync.Mutex // guards the output, start and gone
	w       io.Writer
	json    bool
	verbose bool
	palette palette
	ns      notify.Namespace
	// relative lines begin with the time since the first of them, others with
	// the time of day.
	relative bool
	hide     func(event.Event) bool
	closed   func()

	start time.Time
	gone  bool
}

// event prints one event. It may be called from any goroutine.
func (p *printer) event(e event.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(p.render(nil, e))
}

// events prints several in one write, for those who need not tell of each by itself.
func (p *printer) events(all []event.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var lines []byte
	for _, e := range all {
		lines = p.render(lines, e)
	}
	p.write(lines)
}

// render appends the event's line, if it has one. It is called with the lock held.
func (p *printer) render(lines []byte, e event.Event) []byte {
	if p.hide != nil && p.hide(e) {
		return lines
	}
	if p.json {
		return append(lines, event.Encode(e)...)
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
	if p.start.IsZero() {
		p.start = t
	}
	return p.palette.dim.Sprintf("  %+.3f", max(0, t.Sub(p.start).Seconds())) + "  "
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
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write([]byte(fmt.Sprintf(format, args...) + "\n"))
}

// object prints one JSON object.
func (p *printer) object(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // what is printed here always encodes
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(append(b, '\n'))
}

// write is called with the lock held.
func (p *printer) write(lines []byte) {
	if p.gone || len(lines) == 0 {
		return
	}
	if _, err := p.w.Write(lines); err != nil {
		p.gone = true
		if p.closed != nil {
			p.closed()
		}
	}
}
