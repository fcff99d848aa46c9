package idem

import "testing"

func TestParseRecord(t *testing.T) {
	t.Parallel()
	want := Record{
		State:       Pending,
		Owner:       Owner{Boot: "b-1", File: "8:1234", Slot: 2, Life: "life"},
		Nonce:       "nonce",
		Fingerprint: "00ff",
	}
	const value = "pending b-1/8:1234/2/life nonce 00ff"
	if got, err := ParseRecord(value); got != want || err != nil {
		t.Errorf("want %v, got %v, %v", want, got, err)
	}
	if want.String() != value {
		t.Errorf("want %q, got %q", value, want.String())
	}
	for _, bad := range []string{
		"", "done", "done a/b/1/c n", "done a/b/1/c n f more", "sent a/b/1/c n f", "DONE a/b/1/c n f", " done a/b/1/c n f",
		"done a/b/1 n f", "done a/b/1/c/d n f", "done a/b/x/c n f", "done a/b/01/c n f", "done a/b/+1/c n f",
	} {
		if r, err := ParseRecord(bad); err == nil {
			t.Errorf("%q: want an error, got %v", bad, r)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add("pending b-1/8:1234/2/life nonce 00ff")
	f.Add("done a/b/01/c n f")
	f.Add("claimed /// n f")
	f.Fuzz(func(t *testing.T, value string) {
		r, err := ParseRecord(value)
		if err != nil {
			if r != (Record{}) {
				t.Errorf("%q: an error, and %v", value, r)
			}
			return
		}
		if r.String() != value {
			t.Errorf("%q is written again as %q", value, r)
		}
		if again, err := ParseRecord(r.String()); again != r || err != nil {
			t.Errorf("%v is read again as %v, %v", r, again, err)
		}
	})
}

func FuzzParseOwner(f *testing.F) {
	f.Add("b-1/8:1234/2/life")
	f.Add("a/b/-0/c")
	f.Fuzz(func(t *testing.T, s string) {
		if o, err := ParseOwner(s); err == nil && o.String() != s {
			t.Errorf("%q is written again as %q", s, o)
		}
	})
}
