package storetest

import (
	"testing"
)

// Bench measures a claim that raises the mark, a guarded write of 100 bytes
// and a read, each by one caller on one resource.
func Bench(b *testing.B, h Harness) {
	b.Helper()
	b.Run("Claim", func(b *testing.B) {
		s, f := h.New(b), by(alice, 0)
		b.ReportAllocs()
		for b.Loop() {
			f.ID++
			if err := s.Claim(b.Context(), f); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Write", func(b *testing.B) {
		s, f, value := h.New(b), by(alice, 1), make([]byte, 100)
		if err := s.Claim(b.Context(), f); err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if err := s.Write(b.Context(), f, key, value); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Read", func(b *testing.B) {
		s, f := h.New(b), by(alice, 1)
		err := first(s.Claim(b.Context(), f), s.Write(b.Context(), f, key, make([]byte, 100)))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Read(b.Context(), key); err != nil {
				b.Fatal(err)
			}
		}
	})
}
