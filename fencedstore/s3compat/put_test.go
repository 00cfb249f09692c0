package s3compat_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/s3compat"
)

// pattern is n bytes that compress and repeat badly.
func pattern(n int) []byte {
	b := make([]byte, n)
	rnd := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)})
	_, _ = rnd.Read(b)
	return b
}

func put(tb testing.TB, s *s3compat.Store, f fencedstore.Fence, key string, value []byte) {
	tb.Helper()
	if err := s.Put(tb.Context(), f, key, bytes.NewReader(value), nil); err != nil {
		tb.Fatal(err)
	}
}

func claim(tb testing.TB, s *s3compat.Store, f fencedstore.Fence) {
	tb.Helper()
	if err := s.Claim(tb.Context(), f); err != nil {
		tb.Fatal(err)
	}
}

func wantValue(tb testing.TB, s *s3compat.Store, key string, want []byte) *s3compat.Object {
	tb.Helper()
	o, err := s.Get(tb.Context(), resource, key, nil)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = o.Body.Close() }()
	got, err := io.ReadAll(o.Body)
	if err != nil {
		tb.Fatal(err)
	}
	if !bytes.Equal(got, want) || o.Size != int64(len(want)) {
		tb.Fatalf("%s: got %d bytes, size %d, want %d bytes", key, len(got), o.Size, len(want))
	}
	return o
}

func wantErr(tb testing.TB, what string, got, want error) {
	tb.Helper()
	if !errors.Is(got, want) {
		tb.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// What a reader of the bucket finds in the register does not let it write.
func TestTheStoredHashIsNoHolder(t *testing.T) {
	t.Parallel()
	srv := newFake(t)
	s := open(t, srv, &s3compat.Options{Prefix: "p"})
	claim(t, s, by(alice, 5))
	register, _ := naive{t, srv.client(), srv, "p/invoices/"}.get("register")
	_, rest, _ := strings.Cut(register, `"holder":"`)
	hash, _, ok := strings.Cut(rest, `"`)
	if !ok || len(hash) != 64 || strings.Contains(register, alice) {
		t.Fatalf("got %s", register)
	}
	forged := open(t, srv, &s3compat.Options{Prefix: "p"})
	wantErr(t, "claim", forged.Claim(t.Context(), by(hash, 5)), fencedstore.ErrFenceReused)
	wantErr(t, "put", forged.Put(t.Context(), by(hash, 5), "k", strings.NewReader("x"), nil), fencedstore.ErrFenceReused)
}

// sizes are values that are kept in each of the ways there are.
var sizes = map[string]int{
	"empty": 0, "small": 100, "largest inline": s3compat.DefaultInlineLimit, "smallest object": s3compat.DefaultInlineLimit + 1,
	"one part less a byte": s3compat.MinPartSize - 1, "one part": s3compat.MinPartSize, "two parts": s3compat.MinPartSize + 1,
	"three parts": 3 * s3compat.MinPartSize,
}

func TestValuesOfEverySizeObeyTheSameRules(t *testing.T) {
	t.Parallel()
	srv := newFake(t)
	for name, n := range sizes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, srv, &s3compat.Options{Prefix: name, PartSize: s3compat.MinPartSize})
			value, other := pattern(n), pattern(n+1)
			err := s.Put(t.Context(), by(alice, 5), "k", bytes.NewReader(value), nil)
			wantErr(t, "put before any claim", err, fencedstore.ErrNotClaimed)
			claim(t, s, by(alice, 5))
			put(t, s, by(alice, 5), "k", value)
			if o := wantValue(t, s, "k", value); o.FenceID != 5 {
				t.Errorf("got fence %d, want 5", o.FenceID)
			}
			claim(t, s, by(bob, 6))
			wantErr(t, "older put", s.Put(t.Context(), by(alice, 5), "k", bytes.NewReader(other), nil), fencedstore.ErrStale)
			wantErr(t, "put of an equal fence", s.Put(t.Context(), by(alice, 6), "k", bytes.NewReader(other), nil), fencedstore.ErrFenceReused)
			wantErr(t, "put above", s.Put(t.Context(), by(bob, 7), "k", bytes.NewReader(other), nil), fencedstore.ErrNotClaimed)
			wantValue(t, s, "k", value)
			put(t, s, by(bob, 6), "k", other)
			wantValue(t, s, "k", other)
			if err := s.Delete(t.Context(), by(bob, 6), "k"); err != nil {
				t.Fatal(err)
			}
			_, err = s.Get(t.Context(), resource, "k", nil)
			wantErr(t, "get of what was deleted", err, fencedstore.ErrNotFound)
			wantErr(t, "older put after the deletion", s.Put(t.Context(), by(alice, 5), "k", bytes.NewReader(value), nil), fencedstore.ErrStale)
		})
	}
}
