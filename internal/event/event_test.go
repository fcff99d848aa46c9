package event_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"notifylab/internal/event"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.FixedZone("", 3600))

func TestEncode_is_one_line_without_what_is_empty(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		e    event.Event
		want string
	}{
		{event.Event{Time: noon, Kind: event.Ready}, `{"time":"2026-03-01T11:00:00.123456789Z","kind":"ready"}`},
		{event.Event{
			Time: noon, Kind: event.Sent, Source: "push-worker-1", PID: 42, ID: "n", Channel: "push", User: "7",
			Text: "<a>\n\x1b&", Attempt: 1, Redelivered: true,
		}, `{"time":"2026-03-01T11:00:00.123456789Z","kind":"sent","source":"push-worker-1","pid":42,"id":"n","channel":"push","user":"7","text":"<a>\n\u001b&","attempt":1,"redelivered":true}`},
		{event.Event{Time: noon, Kind: event.Ready, Settings: &event.Settings{Idempotency: true}},
			`{"time":"2026-03-01T11:00:00.123456789Z","kind":"ready","settings":{"idempotency":true,"claimLease":false,"providerKey":false}}`},
	} {
		if got := string(event.Encode(tc.e)); got != tc.want+"\n" {
			t.Errorf("got  %swant %s", got, tc.want)
		}
	}
}

// Each field by itself: a tag that two fields share, or one that is left out
// of JSON, would lose a fact between processes.
func TestDecode_gives_back_every_field(t *testing.T) {
	t.Parallel()
	typ := reflect.TypeFor[event.Event]()
	for i := range typ.NumField() {
		field := typ.Field(i)
		t.Run(field.Name, func(t *testing.T) {
			t.Parallel()
			want := event.Event{Time: noon.UTC(), Kind: event.Note}
			switch v := reflect.ValueOf(&want).Elem().Field(i); v.Kind() {
			case reflect.String:
				v.SetString("some " + field.Name)
			case reflect.Int, reflect.Int64:
				v.SetInt(int64(i + 1))
			case reflect.Bool:
				v.SetBool(true)
			case reflect.Pointer:
				for _, some := range []any{
					&event.Settings{Idempotency: true, ClaimLease: true, ProviderKey: true, Ack: "early"},
					&event.Assignment{Members: []string{"c1"}, Partitions: []int{}},
					&event.Position{}, // the first record of the first partition
				} {
					if reflect.TypeOf(some) == v.Type() {
						v.Set(reflect.ValueOf(some))
					}
				}
				if v.IsNil() {
					t.Fatalf("this test knows no %v", v.Type())
				}
			case reflect.Struct: // or the time, which is set
				if v.Type() == reflect.TypeFor[event.Membership]() {
					v.Set(reflect.ValueOf(event.Membership{Group: "some group", Generation: 1}))
				}
			default:
				t.Fatalf("this test knows no %s", v.Kind())
			}
			line := event.Encode(want)
			got, err := event.Decode(line)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%sgot  %+v, %v\nwant %+v", line, got, err, want)
			}
		})
	}
}

func TestDecode_takes_nothing_but_events(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"", "\n", "panic: runtime error", "goroutine 1 [running]:", "null", "{}", "[]", `"ready"`, "42",
		`{"kind":"ready"}`, `{"time":"2026-03-01T12:00:00Z"}`, `{"time":"noon","kind":"ready"}`,
		`{"time":"2026-03-01T12:00:00Z","kind":"ready"} and more`, `{"time":"2026-03-01T12:00:00Z","kind":"ready"`,
		`{"time":"2026-03-01T12:00:00Z","kind":"ready","pid":"one"}`,
		// In UTC these are in years that no line can hold.
		`{"time":"9999-12-31T23:59:59-01:00","kind":"ready"}`, `{"time":"0000-01-01T00:00:00+01:00","kind":"ready"}`,
	} {
		if e, err := event.Decode([]byte(line)); err == nil || !strings.HasPrefix(err.Error(), "decode event: ") {
			t.Errorf("%q: %+v, %v", line, e, err)
		}
	}
}

// What Decode takes, Encode writes on one line, and it means the same again.
func FuzzDecode(f *testing.F) {
	f.Add(event.Encode(event.Event{Time: noon, Kind: event.Sent, Source: "push-worker-1", Text: "<\u2028>\x00"}))
	f.Add(event.Encode(event.Event{Time: noon, Kind: event.Ready, Settings: &event.Settings{Ack: "early"}}))
	f.Add([]byte(`{"time":"9999-12-31T23:59:59-01:00","kind":"x"}`))
	f.Add([]byte(`{"TIME":"2026-03-01T12:00:00+23:59","Kind":"\ud800","settings":{}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := event.Decode(line)
		if err != nil {
			return
		}
		again := event.Encode(e)
		if bytes.Count(again, []byte("\n")) != 1 || !bytes.HasSuffix(again, []byte("\n")) {
			t.Errorf("not one line: %q", again)
		}
		got, err := event.Decode(again)
		if err != nil || !got.Time.Equal(e.Time) {
			t.Fatalf("%+v came back as %+v, %v", e, got, err)
		}
		got.Time = e.Time // the same moment, in another zone
		if !reflect.DeepEqual(got, e) {
			t.Errorf("%+v came back as %+v", e, got)
		}
	})
}
