package lab

import (
	"strings"
	"testing"
)

func TestParseSwitch(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"on": true, "true": true, "1": true, "ON": true, "True": true,
		"off": false, "false": false, "0": false, "OFF": false, "FALSE": false,
	} {
		if got, err := ParseSwitch(text); got != want || err != nil {
			t.Errorf("%q: want %v, got %v, %v", text, want, got, err)
		}
	}
	for _, text := range []string{"", " on", "on ", "t", "f", "T", "yes", "no", "2", "-1", "01", "on\n", "онлайн", "enabled"} {
		if got, err := ParseSwitch(text); got || err == nil {
			t.Errorf("%q: want an error, got %v", text, got)
		}
	}
	for _, v := range []bool{true, false} {
		if got, err := ParseSwitch(FormatSwitch(v)); got != v || err != nil {
			t.Errorf("%v: got %v, %v", v, got, err)
		}
	}
}

func FuzzParseSwitch(f *testing.F) {
	for _, text := range []string{"on", "off", "true", "false", "1", "0", "", "oN", "\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := ParseSwitch(text)
		known := false
		for _, word := range []string{"on", "true", "1"} {
			known = known || strings.EqualFold(text, word) && v
		}
		for _, word := range []string{"off", "false", "0"} {
			known = known || strings.EqualFold(text, word) && !v
		}
		if known != (err == nil) {
			t.Errorf("%q: %v, %v", text, v, err)
		}
		if err != nil && v {
			t.Errorf("%q: on, and an error", text)
		}
	})
}
