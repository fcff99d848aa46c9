package main

import (
	"errors"
	"slices"
	"strings"

	"notifylab/internal/lab"
)

// choice is a flag whose values are few: a wrong one is answered with all.
type choice struct {
	value   *string
	allowed []string
}

func newChoice(value *string, initial string, allowed ...string) *choice {
	*value = initial
	return &choice{value, allowed}
}

func (c *choice) String() string { return *c.value }
func (c *choice) Type() string   { return strings.Join(c.allowed, "|") }
func (c *choice) Set(s string) error {
	if !slices.Contains(c.allowed, s) {
		return errors.New(strings.TrimPrefix(alternatives(s, c.allowed), "; "))
	}
	*c.value = s
	return nil
}

// choices is a flag that may be repeated, and whose values are known.
type choices struct {
	values  *[]string
	kind    string // what a value is, for --help
	allowed []string
}

func (c *choices) String() string { return strings.Join(*c.values, ", ") }
func (c *choices) Type() string   { return c.kind }
func (c *choices) Set(s string) error {
	if !slices.Contains(c.allowed, s) {
		return errors.New("there is none" + alternatives(s, c.allowed))
	}
	*c.values = append(*c.values, s)
	return nil
}

// onOff is a flag that is on, off, or not given.
type onOff struct{ value *string }

func newSwitch(value *string) *onOff { return &onOff{value} }

func (s *onOff) String() string { return *s.value }
func (s *onOff) Type() string   { return "on|off" }
func (s *onOff) Set(v string) error {
	on, err := lab.ParseSwitch(v)
	if err != nil {
		return errors.New("want on, off, true, false, 1 or 0")
	}
	*s.value = lab.FormatSwitch(on)
	return nil
}
