package passes

import (
	"errors"
	"strings"
	"testing"

	"notifylab/internal/notify"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	e := Expired{ID: "e1", Pass: "pass-1", User: "7", Text: "your <pass> has expired"}
	if got := string(Encode(e)); got != `{"id":"e1","pass":"pass-1","user":"7","text":"your <pass> has expired"}` {
		t.Error(got)
	}
	for body, want := range map[string]Expired{
		string(Encode(e)): e,
		`{"id":"e1","pass":"p","user":"7","more":[1]}`: {ID: "e1", Pass: "p", User: "7"},
	} {
		if got, err := Decode([]byte(body)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
	for body, why := range map[string]string{
		``: "empty", `{`: "unexpected end", `[]`: "cannot unmarshal", `{}`: "id is empty",
		`{"id":"e1","user":"7"}`:                          "pass: id is empty",
		`{"id":"e1","pass":"p"}`:                          "user is empty",
		`{"id":"e:1","pass":"p","user":"7"}`:              "colon",
		`{"id":"e1","pass":"p:1","user":"7"}`:             "colon",
		`{"id":"e1","pass":"p","user":"7"} and something`: "after top-level value",
	} {
		if got, err := Decode([]byte(body)); !errors.Is(err, notify.ErrMalformed) || !strings.Contains(err.Error(), why) || got != (Expired{}) {
			t.Errorf("%s: %+v, %v, want %q", body, got, err, why)
		}
	}
	same(t, "notification", e.Notification(), notify.Notification{ID: "e1", User: "7", Text: e.Text})
}
