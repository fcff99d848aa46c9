package provider

import (
	"strings"
	"testing"
	"time"

	"notifylab/internal/notify"
)

func TestParse_what_a_flag_may_say(t *testing.T) {
	t.Parallel()
	email, user, id := Target{Channel: notify.Email}, Target{User: "42"}, Target{ID: "k7f3-1"}
	for s, want := range map[string]Delay{
		"2s": {For: 2 * time.Second}, "0s": {}, "all=1s": {For: time.Second},
		"email=500ms": {email, 500 * time.Millisecond}, "email:500ms": {email, 500 * time.Millisecond},
		"user=42:2s": {user, 2 * time.Second}, "id=k7f3-1:2s": {id, 2 * time.Second},
	} {
		if got, err := ParseDelay(s); err != nil || got != want {
			t.Errorf("ParseDelay(%q): %+v, %v, want %+v", s, got, err, want)
		}
	}
	for s, want := range map[string]Refusal{
		"410": {Status: 410}, "599": {Status: 599}, "email=503": {email, 503}, "user=42:410": {user, 410},
		"user=a=b:410": {Target{User: "a=b"}, 410}, "id=k7f3-1:400": {id, 400},
	} {
		if got, err := ParseRefuse(s); err != nil || got != want {
			t.Errorf("ParseRefuse(%q): %+v, %v, want %+v", s, got, err, want)
		}
	}
	for s, want := range map[string]Target{"all": {}, "email": email, "user=42": user, "user=all": {User: "all"}, "id=k7f3-1": id} {
		if got, err := ParseTarget(s); err != nil || got != want {
			t.Errorf("ParseTarget(%q): %+v, %v, want %+v", s, got, err, want)
		}
	}
	if got, err := ParseGate("a:b"); err != nil || got != (Gate{"a", "b"}) {
		t.Errorf("ParseGate: %+v, %v", got, err)
	}
}

func TestParse_says_what_is_allowed(t *testing.T) {
	t.Parallel()
	delay := func(s string) error { _, err := ParseDelay(s); return err }
	refuse := func(s string) error { _, err := ParseRefuse(s); return err }
	target := func(s string) error { _, err := ParseTarget(s); return err }
	gate := func(s string) error { _, err := ParseGate(s); return err }
	for _, tc := range []struct {
		parse func(string) error
		in    []string
		says  string
	}{
		{delay, []string{"", "2", "-2s", "email", "email=", "email=fast"}, "want a duration such as 500ms or 2s"},
		{delay, []string{"sms=2s", "=2s", "user:2s"}, "want all, push, email, user=USER or id=ID"},
		{refuse, []string{"", "200", "399", "600", "4e2", "user=42:", "user=42:gone"}, "want a status from 400 to 599"},
		{refuse, []string{"user=42", "sms=410"}, "want all, push, email, user=USER or id=ID"},
		{target, []string{"", "sms", "42", "channel=push"}, "want all, push, email, user=USER or id=ID"},
		{target, []string{"user=", "id="}, "no name"},
		{target, []string{"user=a:b", "id=a:b"}, "colon"},
		{gate, []string{"", "a", "a:", ":b", "a:a", "a:b:c", "a:\x00"}, "want HOLD:UNTIL, two different ids"},
	} {
		for _, in := range tc.in {
			if err := tc.parse(in); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%q: %v, want …%s…", in, err, tc.says)
			}
		}
	}
}

// What a fault says of itself can be read again and means the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"2s", "email=2s", "user=42:410", "id=a=b:503", "all", "user=42", "a:b", "=:", "user=:1s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseDelay(s); err == nil {
			if again, err := ParseDelay(d.String()); err != nil || again != d {
				t.Errorf("%q: %+v is shown as %q, which is %+v, %v", s, d, d, again, err)
			}
		}
		if r, err := ParseRefuse(s); err == nil {
			if again, err := ParseRefuse(r.String()); err != nil || again != r {
				t.Errorf("%q: %+v is shown as %q, which is %+v, %v", s, r, r, again, err)
			}
		}
		if g, err := ParseTarget(s); err == nil {
			if again, err := ParseTarget(g.String()); err != nil || again != g {
				t.Errorf("%q: %+v is shown as %q, which is %+v, %v", s, g, g, again, err)
			}
		}
		if g, err := ParseGate(s); err == nil {
			if again, err := ParseGate(g.String()); err != nil || again != g {
				t.Errorf("%q: %+v is shown as %q, which is %+v, %v", s, g, g, again, err)
			}
		}
	})
}
