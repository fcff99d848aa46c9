package notify

import (
	"strings"
	"testing"
)

func specimen() Notification {
	return Notification{ID: "dc67i9hksdu9ckfdcq7g", User: "42", Text: strings.Repeat("x", 150)}
}

func BenchmarkEncode(b *testing.B) {
	n := specimen()
	b.ReportAllocs()
	for b.Loop() {
		Encode(n)
	}
}

func BenchmarkDecode(b *testing.B) {
	body := Encode(specimen())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkKey(b *testing.B) {
	n := specimen()
	b.ReportAllocs()
	for b.Loop() {
		Key(n, Push)
	}
}

func BenchmarkFingerprint(b *testing.B) {
	n := specimen()
	b.ReportAllocs()
	for b.Loop() {
		Fingerprint(n)
	}
}
