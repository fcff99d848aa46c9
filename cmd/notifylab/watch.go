package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// A list is what the commands that look at the lab show: rows of a few columns,
// each the very object that -o json prints.
type list struct {
	columns []string
	rows    []row
	empty   string // what to say, as text, when there are none
	// kind and by name, as JSON, what is no longer there: {"kind":"queue",
	// "queue":KEY,"gone":true}. Without them it is "key".
	kind, by string
}

type row struct {
	key    string   // what the row is about: two rows with one key are the same thing
	state  string   // what makes it a change; empty: any difference of the object
	cells  []string // as text, ready to print
	change string   // the line of a change, for cells that need their columns' names
	object any      // as JSON
}

// How often a watched list is looked at, and after a look that failed.
const (
	watchEvery = 300 * time.Millisecond
	watchAgain = time.Second
)

// show prints a list once, or, if it is to be watched, for as long as the command
// is let run: on a terminal redrawn in place, in a pipe a line for each change,
// with JSON an object for each change. A server that goes away while it is watched
// is said once, and waited for.
func (a *app) show(ctx context.Context, watched bool, load func(context.Context) (list, error)) error {
	ctx, cancel, done := a.signals(ctx)
	defer done()
	out := a.printer(cancel)
	l, err := load(ctx)
	if err != nil {
		return firstCause(ctx, err)
	}
	w := &watcher{out: out, screen: a.screen()}
	if !watched {
		w.whole(l)
		return firstCause(ctx, nil)
	}
	for away := false; ; l, err = load(ctx) {
		pause := watchEvery
		if err == nil {
			away = false
			w.update(l)
		} else {
			pause = watchAgain
			if !away && ctx.Err() == nil {
				away = true
				w.drawn = "" // the line below spoils it
				fmt.Fprintf(a.stderr, "notifylab: %s; trying again\n", escape(redact(err.Error())))
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return stopped(context.Cause(ctx))
		}
	}
}

// screen is where a watched list is redrawn, or nil: not a terminal, or one that
// can't.
func (a *app) screen() *os.File {
	if a.output == "json" || !isTerminal(a.stdout) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return a.stdout
}

// firstCause prefers why the context ended to what came of it.
func firstCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// A watcher prints a list, and then what changes of it.
type watcher struct {
	out    *printer
	screen *os.File // nil: changes are printed, not the list
	drawn  string
	known  []row // as they were seen last, each with its state
}

func (w *watcher) whole(l list) {
	if !w.out.json {
		w.out.text(l.text(w.width()))
		return
	}
	for _, r := range l.rows {
		w.out.object(r.object)
	}
}

// width is how wide the terminal is. Elsewhere there is no limit, and a row is a line.
func (w *watcher) width() int {
	if w.screen == nil {
		return 0
	}
	width, _, err := term.GetSize(int(w.screen.Fd()))
	if err != nil {
		return 0
	}
	return width
}

func (w *watcher) update(l list) {
	if w.screen != nil {
		w.draw(l)
		return
	}
	before, now := map[string]string{}, map[string]bool{}
	for _, r := range w.known {
		before[r.key] = r.state
	}
	for i := range l.rows {
		r := &l.rows[i]
		if r.state == "" {
			b, _ := json.Marshal(r.object) // what is listed always encodes
			r.state = string(b)
		}
		now[r.key] = true
		if before[r.key] != r.state {
			w.change(*r)
		}
	}
	for _, r := range w.known {
		if now[r.key] {
			continue
		}
		by := l.by
		if by == "" {
			by = "key"
		}
		r.object = map[string]any{"kind": l.kind, by: r.key, "gone": true}
		r.change = r.cells[0] + "  gone"
		w.change(r)
	}
	w.known = l.rows
}

func (w *watcher) change(r row) {
	if w.out.json {
		w.out.object(r.object)
		return
	}
	line := r.change
	if line == "" {
		line = strings.Join(r.cells, "  ")
	}
	w.out.linef("%s  %s", time.Now().Format("15:04:05.000"), strings.TrimRight(line, " "))
}

// draw puts the list in the place of the one before. What doesn't fit would scroll
// the screen, and be drawn over itself: it is cut.
func (w *watcher) draw(l list) {
	const clear, home, clearRight, clearBelow = "\x1b[2J", "\x1b[H", "\x1b[K", "\x1b[J"
	width, height, err := term.GetSize(int(w.screen.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 1000, 1000 // it has no size
	}
	frame := home + strings.ReplaceAll(fit(l.text(0), width, height), "\n", clearRight+"\n") + clearBelow
	if frame == w.drawn {
		return
	}
	if w.drawn == "" {
		w.out.text(clear)
	}
	w.drawn = frame
	w.out.text(frame)
}

// fit cuts lines to a width and their number to less than height: the cursor stands
// in the last line. It says how many it has left out.
func fit(text string, width, height int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if room := max(height-1, 1); len(lines) > room {
		more := fmt.Sprintf("… %d more", len(lines)-room+1)
		lines = append(lines[:room-1:room-1], more)
	}
	for i, line := range lines {
		if runes := []rune(line); len(runes) > width {
			lines[i] = string(runes[:width-1]) + "…"
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// text prints some lines at once.
func (p *printer) text(lines string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write([]byte(lines))
}

// text is the list in columns, wrapped to a width if that is not 0.
func (l list) text(width int) string {
	if len(l.rows) == 0 {
		return l.empty + "\n"
	}
	rows := [][]string{l.columns}
	for _, r := range l.rows {
		rows = append(rows, r.cells)
	}
	var b strings.Builder
	for _, lines := range layOut(rows, "  ", width) {
		for _, line := range lines {
			fmt.Fprintln(&b, strings.TrimRight(line, " "))
		}
	}
	return b.String()
}
