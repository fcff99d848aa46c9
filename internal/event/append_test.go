package event_test

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"notifylab/internal/event"
)

// byLibrary is what Append has to write.
func byLibrary(t *testing.T, e event.Event) string {
	t.Helper()
	e.Time = e.Time.UTC()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// fill sets all that v holds, whatever fields it has.
func fill(t *testing.T, v reflect.Value, s string, n int64, on bool) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Int, reflect.Int64:
		v.SetInt(n)
	case reflect.Bool:
		v.SetBool(on)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), s, n, on)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(t, v.Index(i), s, n, on)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			fill(t, v.Field(i), s, n, on)
		}
	default:
		t.Fatalf("this test knows no %s", v.Kind())
	}
}

// Of every field that there is, by itself and with all others: one that Append does
// not know is missing in its line.
func TestAppend_writes_what_the_library_writes(t *testing.T) {
	t.Parallel()
	same := func(e event.Event) {
		t.Helper()
		const before = "what is there"
		if got, want := string(event.Append([]byte(before), e)), before+byLibrary(t, e); got != want {
			t.Errorf("got  %swant %s", got, want)
		}
	}
	texts := []string{
		"", "plain", "<a href='x'>&</a>", `"\\/`, "\x00\x01\b\f\n\r\t\x1b\x1f\x7f", "é日本😀\u0080", "\u2027\u2028\u2029\u202a",
		"\ufffd is no \xff", "\xed\xa0\x80", "\xef\xbf", "ends in half \xe2\x80", "\xc0\x80\U0010ffff",
	}
	for _, s := range texts {
		for _, n := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64} {
			none := event.Event{Time: noon}
			typ := reflect.TypeOf(none)
			for i := range typ.NumField() {
				e := none
				fill(t, reflect.ValueOf(&e).Elem().Field(i), s, n, n == 1)
				same(e)
			}
			all := none
			fill(t, reflect.ValueOf(&all).Elem(), s, n, n == 1)
			same(all)
		}
	}
	for _, at := range []time.Time{
		{}, time.Unix(0, 0), noon.Truncate(time.Second), noon.Truncate(time.Millisecond), time.Now(),
		time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC), time.Date(0, 1, 1, 0, 0, 0, 1, time.UTC),
	} {
		same(event.Event{Time: at})
	}
	same(event.Event{Assignment: &event.Assignment{}}) // its lists are null
}

func FuzzAppend(f *testing.F) {
	f.Add("<\u2028>\x00\xff", int64(-1), int64(0), int64(1), true)
	f.Fuzz(func(t *testing.T, s string, n, sec, ns int64, on bool) {
		e := event.Event{Time: time.Unix(sec, ns)}
		if year := e.Time.UTC().Year(); year < 0 || year > 9999 {
			return
		}
		fill(t, reflect.ValueOf(&e).Elem(), s, n, on)
		if got, want := string(event.Append(nil, e)), byLibrary(t, e); got != want {
			t.Errorf("got  %swant %s", got, want)
		}
	})
}

func TestAppend_takes_no_memory_but_its_own(t *testing.T) {
	room := make([]byte, 0, 1<<10)
	e := event.Event{Time: noon, Kind: event.Sent, Source: "push-worker-1", ID: "n", Text: "é\u2028\n\xff", PID: 1 << 20, TTLMS: 10000, Redelivered: true}
	if n := testing.AllocsPerRun(100, func() { event.Append(room, e) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
