package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/memstore"
	"github.com/fenced-go/fenced/fencedstore/storetest"
)

var harness = storetest.Harness{
	New: func(testing.TB) fencedstore.Store { return memstore.New() },
	Reopen: func(tb testing.TB, s fencedstore.Store) fencedstore.Store {
		tb.Helper()
		return another(tb, s)
	},
	LoseReply: func(tb testing.TB, s fencedstore.Store) fencedstore.Store {
		tb.Helper()
		return &lossy{Store: another(tb, s)}
	},
	Parallel: true,
}

func another(tb testing.TB, s fencedstore.Store) *memstore.Store {
	tb.Helper()
	handle, ok := s.(*memstore.Store)
	if !ok {
		tb.Fatalf("got a %T, want a handle of this harness", s)
	}
	return handle.Handle()
}

// lossy stands for a wire, which a store in memory has not: its first answer
// is lost.
type lossy struct {
	*memstore.Store
	once sync.Once
}

func (s *lossy) Claim(ctx context.Context, f fencedstore.Fence) error {
	err := s.Store.Claim(ctx, f)
	s.once.Do(func() { err = &fencedstore.UnknownOutcomeError{Op: "claim", Fence: f} })
	return err
}

func (s *lossy) Write(ctx context.Context, f fencedstore.Fence, key string, value []byte) error {
	err := s.Store.Write(ctx, f, key, value)
	s.once.Do(func() { err = &fencedstore.UnknownOutcomeError{Op: "write", Fence: f} })
	return err
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, harness)
}

func BenchmarkStore(b *testing.B) { storetest.Bench(b, harness) }

func fence(id int64) fencedstore.Fence {
	return fencedstore.Fence{Resource: "invoices", ID: id, Holder: fmt.Sprint("holder ", id)}
}

// claimed returns a new store on which f was claimed.
func claimed(tb testing.TB, f fencedstore.Fence) *memstore.Store {
	tb.Helper()
	s := memstore.New()
	if err := s.Claim(tb.Context(), f); err != nil {
		tb.Fatal(err)
	}
	return s
}

func set(tb testing.TB, s *memstore.Store, f fencedstore.Fence, key, value string) {
	tb.Helper()
	if err := s.Write(tb.Context(), f, key, []byte(value)); err != nil {
		tb.Fatal(err)
	}
}

func want(tb testing.TB, s *memstore.Store, key, value string) {
	tb.Helper()
	if got, err := s.Read(tb.Context(), key); err != nil || string(got) != value {
		tb.Errorf("%s: got %q, %v, want %q", key, got, err, value)
	}
}

func wantAbsent(tb testing.TB, s *memstore.Store, key string) {
	tb.Helper()
	if got, err := s.Read(tb.Context(), key); !errors.Is(err, fencedstore.ErrNotFound) {
		tb.Errorf("%s: got %q, %v, want ErrNotFound", key, got, err)
	}
}

func TestBadInputIsRefusedBeforeAnyEffect(t *testing.T) {
	t.Parallel()
	var none context.Context
	done, cancel := context.WithCancel(t.Context())
	cancel()
	because := errors.New("lease lost")
	lost, lose := context.WithCancelCause(t.Context())
	lose(because)
	f, ctx, huge := fence(5), t.Context(), strings.Repeat("k", memstore.MaxKey+1)
	s := claimed(t, f)
	set(t, s, f, "k", "kept")
	noop := func(*memstore.Tx) error { t.Error("the transaction was run"); return nil }
	read := func(ctx context.Context, key string) error { _, err := s.Read(ctx, key); return err }

	for _, tt := range []struct {
		name string
		err  error
		want error
	}{
		{"claim, nil context", s.Claim(none, fence(6)), memstore.ErrNilContext},
		{"write, nil context", s.Write(none, f, "k", nil), memstore.ErrNilContext},
		{"read, nil context", read(none, "k"), memstore.ErrNilContext},
		{"transaction, nil context", s.InTx(none, f, noop), memstore.ErrNilContext},
		{"claim, done context", s.Claim(done, fence(6)), context.Canceled},
		{"write, done context", s.Write(done, f, "k", nil), context.Canceled},
		{"read, done context", read(done, "k"), context.Canceled},
		{"transaction, done context", s.InTx(done, f, noop), context.Canceled},
		{"write, cause of the context", s.Write(lost, f, "k", nil), because},
		{"write, context with a cause", s.Write(lost, f, "k", nil), context.Canceled},
		{"claim, zero fence", s.Claim(ctx, fencedstore.Fence{}), fencedstore.ErrInvalidFence},
		{"write, zero fence", s.Write(ctx, fencedstore.Fence{}, "k", nil), fencedstore.ErrInvalidFence},
		{"transaction, zero fence", s.InTx(ctx, fencedstore.Fence{}, noop), fencedstore.ErrInvalidFence},
		{"write, empty key", s.Write(ctx, f, "", []byte("v")), memstore.ErrInvalidKey},
		{"write, huge key", s.Write(ctx, f, huge, []byte("v")), memstore.ErrInvalidKey},
		{"read, empty key", read(ctx, ""), memstore.ErrInvalidKey},
		{"read, huge key", read(ctx, huge), memstore.ErrInvalidKey},
		{"transaction, stale fence", s.InTx(ctx, fence(4), noop), fencedstore.ErrStale},
		{"transaction, fence not claimed", s.InTx(ctx, fence(6), noop), fencedstore.ErrNotClaimed},
		{"transaction, reused fence", s.InTx(ctx, fencedstore.Fence{Resource: f.Resource, ID: f.ID, Holder: "other"}, noop), fencedstore.ErrFenceReused},
	} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, tt.err, tt.want)
		}
	}
	want(t, s, "k", "kept")
	set(t, s, f, "k", "still the newest")
	if got := s.Keys(""); !slices.Equal(got, []string{"k"}) {
		t.Errorf("keys: got %q, want only k", got)
	}
}

func TestKeyErrorTellsTheLength(t *testing.T) {
	t.Parallel()
	f := fence(5)
	s := claimed(t, f)
	set(t, s, f, strings.Repeat("k", memstore.MaxKey), "the longest key")
	err := s.Write(t.Context(), f, strings.Repeat("k", memstore.MaxKey+1), nil)
	invalid, ok := errors.AsType[*memstore.InvalidKeyError](err)
	if !ok || invalid.Length != memstore.MaxKey+1 {
		t.Errorf("got %v, want an *InvalidKeyError with the length", err)
	}
	if got, want := err.Error(), "memstore: key of 1025 bytes: 1 to 1024 are allowed"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestKeysAreSortedAndFiltered(t *testing.T) {
	t.Parallel()
	f := fence(5)
	s := claimed(t, f)
	for _, key := range []string{"invoice/2", "account/1", "invoice/1", "invoices"} {
		set(t, s, f, key, "v")
	}
	set(t, s, f, "invoice/3", "")
	if err := s.Write(t.Context(), f, "invoice/2", nil); err != nil {
		t.Fatal(err)
	}
	for prefix, want := range map[string][]string{
		"":         {"account/1", "invoice/1", "invoice/3", "invoices"},
		"invoice/": {"invoice/1", "invoice/3"},
		"none":     nil,
	} {
		if got := s.Handle().Keys(prefix); !slices.Equal(got, want) {
			t.Errorf("prefix %q: got %q, want %q", prefix, got, want)
		}
	}
}

func TestStoresShareNothingUnlessTheyAreHandles(t *testing.T) {
	t.Parallel()
	f := fence(5)
	s := claimed(t, f)
	set(t, s, f, "k", "v")
	want(t, s.Handle().Handle(), "k", "v")
	wantAbsent(t, memstore.New(), "k")
	if err := memstore.New().Write(t.Context(), f, "k", nil); !errors.Is(err, fencedstore.ErrNotClaimed) {
		t.Errorf("got %v, want ErrNotClaimed", err)
	}
}

func TestNoHolderIsKept(t *testing.T) {
	t.Parallel()
	f := fencedstore.Fence{Resource: "invoices", ID: 5, Holder: "secret-of-the-holder"}
	s := claimed(t, f)
	err := s.InTx(t.Context(), f, func(tx *memstore.Tx) error {
		if text := fmt.Sprintf("%v %+v %#v", tx, *tx, tx); strings.Contains(text, f.Holder) {
			t.Errorf("a printed Tx shows the holder: %s", text)
		}
		return nil
	})
	if text := fmt.Sprintf("%v %+v %#v", s, *s, s); err != nil || strings.Contains(text, f.Holder) {
		t.Errorf("got %v; a printed Store: %s", err, text)
	}
}
