package notify

import "testing"

// The short way and the long way read the same, wherever the short one goes.
func FuzzDecodePlain(f *testing.F) {
	for _, s := range []string{
		`{"id":"n","user":"7","text":"hello"}`, `{"id":"","user":"","text":""}`, `{"id":"n","user":"7","text":"a\\"}"}`,
		`{"id":"n","user":"7","text":"x"},"text":"y"}`, `{"id":"a","user":"b","user":"c","text":"d"}`, "{\"id\":\"é\",\"user\":\"\x7f\",\"text\":\"\xff\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		short, ok := decodePlain(string(body))
		if !ok {
			return
		}
		if long, err := decodeJSON(body); err != nil || long != short {
			t.Errorf("%q: %+v by the short way, %+v, %v by the long one", body, short, long, err)
		}
	})
}

// What the lab's own producer writes goes the short way.
func TestDecodePlain_reads_the_usual(t *testing.T) {
	t.Parallel()
	n := Notification{ID: "dc67i9hksdu9ckfdcq7g", User: "42", Text: "your pass expires tomorrow <now> & here"}
	if got, ok := decodePlain(string(Encode(n))); !ok || got != n {
		t.Errorf("got %+v, %v", got, ok)
	}
}
