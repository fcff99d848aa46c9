package notify_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"notifylab/internal/notify"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", notify.MaxName+1)
	for _, tc := range []struct {
		name string
		n    notify.Notification
		says string // empty: it is valid
	}{
		{"the usual", notify.Notification{ID: "n-1", User: "7", Text: "hello"}, ""},
		{"no text", notify.Notification{ID: "n-1", User: "7"}, ""},
		{"letters of the world", notify.Notification{ID: "ñ-1", User: "用户", Text: "\u2028 <b>\x00"}, ""},
		{"as long as may be", notify.Notification{ID: long[1:], User: long[1:], Text: strings.Repeat("x", notify.MaxText)}, ""},
		{"no id", notify.Notification{User: "7"}, "id is empty"},
		{"no user", notify.Notification{ID: "n"}, "user is empty"},
		{"a long id", notify.Notification{ID: long, User: "7"}, "id has 129 bytes, at most 128"},
		{"a long user", notify.Notification{ID: "n", User: long}, "user has 129 bytes, at most 128"},
		{"a long text", notify.Notification{ID: "n", User: "7", Text: strings.Repeat("x", notify.MaxText+1)}, "text has 16385 bytes, at most 16384"},
		{"a colon in the id", notify.Notification{ID: "a:b", User: "7"}, `id "a:b" has a colon`},
		{"a colon in the user", notify.Notification{ID: "n", User: ":"}, `user ":" has a colon`},
		{"a line break", notify.Notification{ID: "a\nb", User: "7"}, `id "a\nb" has a control character`},
		{"a control character of the second kind", notify.Notification{ID: "n", User: "\u0085"}, "control character"},
		{"no UTF-8 in the id", notify.Notification{ID: "\xff", User: "7"}, "id is not valid UTF-8"},
		{"no UTF-8 in the user", notify.Notification{ID: "n", User: "\xff"}, "user is not valid UTF-8"},
		{"no UTF-8 in the text", notify.Notification{ID: "n", User: "7", Text: "\xff"}, "text is not valid UTF-8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			switch err := tc.n.Validate(); {
			case tc.says == "" && err != nil:
				t.Errorf("got %v, want none", err)
			case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
				t.Errorf("got %v, want …%s…", err, tc.says)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	want := notify.Notification{ID: "n", User: "7", Text: "hello"}
	for _, body := range []string{
		`{"id":"n","user":"7","text":"hello"}`,
		" {\n\"text\":\"hello\", \"user\":\"7\", \"id\":\"\\u006e\"}\n",
		`{"id":"n","user":"7","text":"hello","priority":{"of":["a newer producer"]}}`,
	} {
		if got, err := notify.Decode([]byte(body)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
	for body, says := range map[string]string{
		``:                                   "the body is empty",
		" \n":                                "the body is empty",
		`null`:                               "no id",
		`{}`:                                 "no id",
		`{"id":"n"`:                          "unexpected EOF",
		`hello`:                              "invalid character",
		`"n"`:                                "cannot unmarshal",
		`[]`:                                 "cannot unmarshal",
		`{"id":1,"user":"7","text":"x"}`:     "cannot unmarshal",
		`{"id":null,"user":"7","text":"x"}`:  "no id",
		`{"id":"n","text":"x"}`:              "no user",
		`{"id":"n","user":"7"}`:              "no text",
		`{"id":"n","user":"7","text":"x"}{}`: "something follows",
		`{"id":"n","user":"7","text":"x"} x`: "something follows",
		`{"id":"","user":"7","text":"x"}`:    "id is empty",
		`{"id":"n","user":"a:b","text":"x"}`: "colon",
	} {
		if _, err := notify.Decode([]byte(body)); !errors.Is(err, notify.ErrMalformed) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want malformed …%s…", body, err, says)
		}
	}
}

func TestEncode_writes_the_form_that_is_in_the_queues(t *testing.T) {
	t.Parallel()
	got := string(notify.Encode(notify.Notification{ID: "n-1", User: "7", Text: "a < b & \"c\"\n"}))
	if want := `{"id":"n-1","user":"7","text":"a < b & \"c\"\n"}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	n := notify.Notification{ID: "k7f3-1", User: "7", Text: "hello"}
	if got := notify.Key(n, notify.Push); got != "notification:k7f3-1:push:7" {
		t.Errorf("Key: %s", got)
	}
	if got := notify.ProviderKey(n, notify.Email); got != "k7f3-1:email:7" {
		t.Errorf("ProviderKey: %s", got)
	}
	other := n
	other.Text = "hello!"
	if a, b := notify.Fingerprint(n), notify.Fingerprint(other); a == b || len(a) != 16 || a != notify.Fingerprint(n) {
		t.Errorf("Fingerprint: %s of one text, %s of another", a, b)
	}
}

// No two notifications share a record: what would run together in a key is refused.
// (sibidharan/zealphp#247)
func TestKey_IsOneNotifications(t *testing.T) {
	t.Parallel()
	parts := []string{"a", "b", ":", "a:", ":b", "a:push", "push:b", "email", "a:push:b", "%3a", "é", "ａ"}
	seen := map[string]string{}
	for _, id := range parts {
		for _, user := range parts {
			n := notify.Notification{ID: id, User: user, Text: "hello"}
			if n.Validate() != nil {
				continue
			}
			for _, c := range notify.Channels() {
				what, key := fmt.Sprintf("%q %q %s", id, user, c), notify.Key(n, c)
				if other, taken := seen[key]; taken {
					t.Errorf("%s and %s share %s", what, other, key)
				}
				seen[key] = what
			}
		}
	}
	if len(seen) != 2*6*6 {
		t.Errorf("%d keys, want those of the six parts without a colon", len(seen))
	}
}

func TestParseChannel(t *testing.T) {
	t.Parallel()
	for _, c := range notify.Channels() {
		if got, err := notify.ParseChannel(string(c)); err != nil || got != c {
			t.Errorf("%s: %s, %v", c, got, err)
		}
	}
	for _, bad := range []string{"", "sms", "Push", "push "} {
		if _, err := notify.ParseChannel(bad); err == nil || !strings.Contains(err.Error(), "there are push, email") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestAnswer_every_one_has_a_name(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for a := notify.Accepted; a <= notify.Unknown; a++ {
		names[a.String()] = true
	}
	if len(names) != 5 {
		t.Errorf("names %v, want 5", names)
	}
}

// Whatever Decode takes is valid and comes back from its own encoding;
// everything else is malformed.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"id":"n","user":"7","text":"hello"}`, `{"ID":"n","User":"7","TEXT":"\ud800"}`, `{"id":"\u0000"}`, `{}`, ``, `null`,
		"{\"id\":\"\xff\",\"user\":\"7\",\"text\":\"\xfe\"}", `{"id":"n","user":"7","text":"\u2028"}{}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		n, err := notify.Decode(body)
		if err != nil {
			if !errors.Is(err, notify.ErrMalformed) || n != (notify.Notification{}) {
				t.Errorf("%+v, %v", n, err)
			}
			return
		}
		if err := n.Validate(); err != nil {
			t.Errorf("decoded what can't be published: %v", err)
		}
		if again, err := notify.Decode(notify.Encode(n)); err != nil || again != n {
			t.Errorf("%+v came back as %+v, %v", n, again, err)
		}
	})
}

// Equal keys mean equal parts: two notifications never share a record.
func FuzzKey(f *testing.F) {
	f.Add("a", "b", "a", "b", true)
	f.Add("a:push", "b", "a", "push:b", false)
	f.Add("a", "push:b", "a:push", "b", true)
	f.Add("n", "7:email:8", "n", "8", false)
	f.Fuzz(func(t *testing.T, id1, user1, id2, user2 string, same bool) {
		a, b := notify.Notification{ID: id1, User: user1}, notify.Notification{ID: id2, User: user2}
		if a.Validate() != nil || b.Validate() != nil {
			return
		}
		other := notify.Push
		if !same {
			other = notify.Email
		}
		equal := a == b && same
		if got := notify.Key(a, notify.Push) == notify.Key(b, other); got != equal {
			t.Errorf("%+v and %+v: keys equal %v, parts equal %v", a, b, got, equal)
		}
		if got := notify.ProviderKey(a, notify.Push) == notify.ProviderKey(b, other); got != equal {
			t.Errorf("%+v and %+v: provider keys equal %v, parts equal %v", a, b, got, equal)
		}
	})
}
