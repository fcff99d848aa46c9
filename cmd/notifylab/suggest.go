package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// noSuchCommand refuses arguments of a command that only has subcommands, and
// suggests the nearest.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknown("command", args[0], cmd.CommandPath(), commandNames(cmd))
}

func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// unknown says that there is no such thing: where there are few it lists all,
// else the nearest.
func unknown(what, got, of string, known []string) error {
	text := fmt.Sprintf("no %s %q", what, got)
	if of != "" {
		text += " of " + of
	}
	return usagef("%s%s", text, alternatives(got, known))
}

// few is how many words are listed whole.
const few = 8

// alternatives ends a sentence about a word that is none of those that are known.
func alternatives(got string, known []string) string {
	text := ""
	if len(known) <= few {
		text = "; there are " + strings.Join(known, ", ")
	}
	return text + nearestOf(got, known)
}

func nearestOf(got string, known []string) string {
	if near := nearest(got, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// suggestFlag names the nearest flag when one is unknown. Of -amqp-url=… it shows
// no more than the name: pflag takes that for letters and would repeat them all, a
// password too.
func suggestFlag(cmd *cobra.Command, err error) error {
	var e *pflag.NotExistError
	if !errors.As(err, &e) {
		return err
	}
	var names []string
	visit := func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	}
	cmd.Flags().VisitAll(visit)
	cmd.InheritedFlags().VisitAll(visit)
	dashes, got := "--", e.GetSpecifiedName()
	if letters := e.GetSpecifiedShortnames(); letters != "" {
		dashes = "-"
		got, _, _ = strings.Cut(letters, "=")
	}
	text := "unknown flag: " + dashes + got
	if near := nearest(got, names); near != "" {
		text += "; did you mean --" + near + "?"
	}
	return errors.New(text)
}

// plainValue says what a flag of a plain type wants, where the error would tell in the
// words of Go's library.
func plainValue(err error) error {
	var e *pflag.InvalidValueError
	if !errors.As(err, &e) {
		return err
	}
	wants, plain := map[string]string{
		"int": "a whole number", "int64": "a whole number", "intSlice": "whole numbers with commas between", "stringSlice": "words with commas between",
		"duration": "a duration such as 500ms, 2s or 1m30s", "bool": "true or false",
	}[e.GetFlag().Value.Type()]
	switch {
	case !plain:
		return err
	case errors.Is(err, strconv.ErrRange):
		wants = "a number that is not that large"
	}
	return fmt.Errorf("--%s %q: want %s", e.GetFlag().Name, e.GetValue(), wants)
}

// nearest returns the known word with the fewest edits from got, or "" if none is
// near.
func nearest(got string, known []string) string {
	best, least := "", max(2, len(got)/3)+1
	for _, k := range known {
		d := distance(got, k)
		if strings.HasPrefix(k, got) && got != "" {
			d = 1
		}
		if d < least {
			best, least = k, d
		}
	}
	return best
}

// distance counts the edits (Levenshtein's) from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
