package main

import (
	"os"

	"github.com/fatih/color"
	"golang.org/x/term"
)

// palette colours words. Colour repeats what the word says and adds nothing. Each
// printer has its own: the library's global switch is left alone.
type palette struct {
	green, red, yellow, magenta, dim, bold *color.Color
}

func newPalette(on bool) palette {
	c := func(attributes ...color.Attribute) *color.Color {
		c := color.New(attributes...)
		if on {
			c.EnableColor()
		} else {
			c.DisableColor()
		}
		return c
	}
	return palette{
		green:   c(color.FgGreen),
		red:     c(color.FgRed, color.Bold),
		yellow:  c(color.FgYellow),
		magenta: c(color.FgMagenta),
		dim:     c(color.Faint),
		bold:    c(color.Bold),
	}
}

// colours decides whether to colour what is printed on f: by --color, NO_COLOR
// (not empty), FORCE_COLOR, TERM=dumb, and whether it is a terminal, in this
// order.
func colours(choice string, f *os.File) bool {
	switch {
	case choice == "always":
		return true
	case choice == "never", os.Getenv("NO_COLOR") != "":
		return false
	case os.Getenv("FORCE_COLOR") != "":
		return os.Getenv("FORCE_COLOR") != "0"
	case os.Getenv("TERM") == "dumb":
		return false
	}
	return isTerminal(f)
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
