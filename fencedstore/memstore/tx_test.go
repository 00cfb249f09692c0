package memstore_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/memstore"
)

var errChanged = errors.New("changed my mind")

func TestTxTakesEffectAsAWhole(t *testing.T) {
	t.Parallel()
	f := fence(5)
	s := claimed(t, f)
	set(t, s, f, "account", "100")
	set(t, s, f, "open", "1")
	err := s.InTx(t.Context(), f, func(tx *memstore.Tx) error {
		if err := errors.Join(tx.Write("account", []byte("70")), tx.Write("invoice", []byte{}), tx.Write("open", nil)); err != nil {
			return err
		}
		want(t, s, "account", "100")
		wantAbsent(t, s, "invoice")
		got, err := tx.Read("account")
		if err != nil || string(got) != "70" {
			t.Errorf("own write: got %q, %v, want 70", got, err)
		}
		if _, err := tx.Read("open"); !errors.Is(err, fencedstore.ErrNotFound) {
			t.Errorf("own delete: got %v, want ErrNotFound", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, s, "account", "70")
	want(t, s, "invoice", "")
	wantAbsent(t, s, "open")
}

func TestTxThatFailsHasNoEffect(t *testing.T) {
	t.Parallel()
	f := fence(5)
	cancelled, cancel := context.WithCancel(t.Context())
	for name, tt := range map[string]struct {
		ctx  context.Context
		fn   func(tx *memstore.Tx) error
		want error
	}{
		"error of fn":  {t.Context(), func(*memstore.Tx) error { return errChanged }, errChanged},
		"context done": {cancelled, func(*memstore.Tx) error { cancel(); return nil }, context.Canceled},
		"misuse that fn ignored": {t.Context(), func(tx *memstore.Tx) error {
			_ = tx.Write("", nil)
			return nil
		}, memstore.ErrInvalidKey},
	} {
		s := claimed(t, f)
		set(t, s, f, "k", "kept")
		err := s.InTx(tt.ctx, f, func(tx *memstore.Tx) error {
			return errors.Join(tx.Write("k", nil), tx.Write("other", []byte("v")), tt.fn(tx))
		})
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
		want(t, s, "k", "kept")
		wantAbsent(t, s, "other")
	}
}

func TestTxThatPanicsHasNoEffect(t *testing.T) {
	t.Parallel()
	f := fence(5)
	s := claimed(t, f)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = s.InTx(t.Context(), f, func(tx *memstore.Tx) error {
			_ = tx.Write("k", []byte("v"))
			panic("bug")
		})
	}()
	wantAbsent(t, s, "k")
	set(t, s, f, "k", "nothing stays locked")
}

// TestStuckTxDoesNotHoldUpItsSuccessor plays the story of the package on one
// goroutine: a claim that waited for the older transaction would never return.
func TestStuckTxDoesNotHoldUpItsSuccessor(t *testing.T) {
	t.Parallel()
	old, newer := fence(41), fence(42)
	s := claimed(t, old)
	set(t, s, old, "account", "100")
	successor := s.Handle()
	err := s.InTx(t.Context(), old, func(tx *memstore.Tx) error {
		if _, err := tx.Read("account"); err != nil {
			t.Error(err)
		}
		if err := successor.Claim(t.Context(), newer); err != nil {
			t.Errorf("claim beside a running transaction: %v", err)
		}
		if err := successor.InTx(t.Context(), newer, func(tx *memstore.Tx) error { return tx.Write("account", []byte("70")) }); err != nil {
			t.Errorf("transaction of the successor: %v", err)
		}
		_, err := tx.Read("account")
		if stale, ok := errors.AsType[*fencedstore.StaleError](err); !ok || stale.Newest != 42 {
			t.Errorf("read after the successor's claim: got %v, want a *StaleError", err)
		}
		return tx.Write("account", []byte("90"))
	})
	stale, ok := errors.AsType[*fencedstore.StaleError](err)
	if !ok || stale.Newest != 42 || stale.Fence != old {
		t.Errorf("got %v, want a *StaleError with both fences", err)
	}
	want(t, s, "account", "70")
}

func TestTxWithoutReadsIsRefusedAtItsEnd(t *testing.T) {
	t.Parallel()
	s := claimed(t, fence(41))
	err := s.InTx(t.Context(), fence(41), func(tx *memstore.Tx) error {
		return errors.Join(tx.Write("k", []byte("old")), s.Claim(t.Context(), fence(42)))
	})
	if !errors.Is(err, fencedstore.ErrStale) {
		t.Errorf("got %v, want ErrStale", err)
	}
	wantAbsent(t, s, "k")
}

func TestTxConflictIsDetected(t *testing.T) {
	t.Parallel()
	f := fence(5)
	for name, change := range map[string]func(s *memstore.Store) error{
		"changed":          func(s *memstore.Store) error { return s.Write(t.Context(), f, "k", []byte("other")) },
		"changed and back": func(s *memstore.Store) error { return s.Write(t.Context(), f, "k", []byte("v")) },
		"deleted":          func(s *memstore.Store) error { return s.Write(t.Context(), f, "k", nil) },
		"changed by a transaction": func(s *memstore.Store) error {
			return s.InTx(t.Context(), f, func(tx *memstore.Tx) error { return tx.Write("k", []byte("other")) })
		},
	} {
		s := claimed(t, f)
		set(t, s, f, "k", "v")
		err := s.InTx(t.Context(), f, func(tx *memstore.Tx) error {
			_, err := tx.Read("k")
			_, again := tx.Read("k")
			return errors.Join(err, again, change(s), tx.Write("sum", []byte("v")))
		})
		if conflict, ok := errors.AsType[*memstore.ConflictError](err); !ok || conflict.Key != "k" || !errors.Is(err, memstore.ErrConflict) {
			t.Errorf("%s: got %v, want a *ConflictError about k", name, err)
		}
		wantAbsent(t, s, "sum")
	}
}

func TestTxIgnoresWhatItDidNotRead(t *testing.T) {
	t.Parallel()
	f := fence(5)
	s := claimed(t, f)
	err := s.InTx(t.Context(), f, func(tx *memstore.Tx) error {
		_, err := tx.Read("absent")
		if !errors.Is(err, fencedstore.ErrNotFound) {
			return err
		}
		set(t, s, f, "other", "v")
		return tx.Write("k", []byte("v"))
	})
	if err != nil {
		t.Errorf("got %v, want nil", err)
	}
	want(t, s, "k", "v")
}

// TestTransactionsOfOneHolderLoseNoUpdate counts from many goroutines,
// repeating on conflict.
func TestTransactionsOfOneHolderLoseNoUpdate(t *testing.T) {
	t.Parallel()
	const workers, each = 8, 50
	f := fence(5)
	s := claimed(t, f)
	set(t, s, f, "n", "0")
	increment := func(tx *memstore.Tx) error {
		got, err := tx.Read("n")
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(got))
		if err != nil {
			return err
		}
		return tx.Write("n", []byte(strconv.Itoa(n+1)))
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for done := 0; done < each; {
				switch err := s.InTx(t.Context(), f, increment); {
				case err == nil:
					done++
				case !errors.Is(err, memstore.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	want(t, s, "n", strconv.Itoa(workers*each))
}

func TestTxIsOverWhenItsFunctionHasReturned(t *testing.T) {
	t.Parallel()
	f := fence(5)
	s := claimed(t, f)
	var kept *memstore.Tx
	if err := s.InTx(t.Context(), f, func(tx *memstore.Tx) error { kept = tx; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := kept.Write("k", nil); !errors.Is(err, memstore.ErrTxDone) {
		t.Errorf("write: got %v, want ErrTxDone", err)
	}
	if _, err := kept.Read("k"); !errors.Is(err, memstore.ErrTxDone) {
		t.Errorf("read: got %v, want ErrTxDone", err)
	}
}

func TestTxCopiesValues(t *testing.T) {
	t.Parallel()
	f := fence(5)
	s := claimed(t, f)
	mine := []byte("v")
	err := s.InTx(t.Context(), f, func(tx *memstore.Tx) error {
		if err := tx.Write("k", mine); err != nil {
			return err
		}
		mine[0] = '!'
		got, err := tx.Read("k")
		if err != nil {
			return err
		}
		got[0] = '?'
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, s, "k", "v")
}
