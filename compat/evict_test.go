package compat_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
	fencedpg "github.com/fenced-go/fenced/fencedstore/postgres"
)

// claimOrEvict takes a resource from a holder that hangs.
func claimOrEvict(ctx context.Context, store *fencedpg.Store, f fencedstore.Fence) error {
	err := store.Claim(ctx, f)
	if !errors.Is(err, fencedpg.ErrBusy) {
		return err
	}
	if _, err := store.Evict(ctx, f.Resource); err != nil {
		return err // ErrRights says what to grant
	}
	return store.Claim(ctx, f)
}

func TestHolderThatHangsIsEvicted(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, e env) {
		t.Helper()
		if e.nest == nil {
			return // it holds nothing longer than a statement
		}
		newer := fencedstore.Fence{Resource: e.fence.Resource, ID: 6, Holder: fencedstore.NewHolder()}
		store := newStore(t, e.pool, &fencedpg.Options{LockTimeout: 20 * time.Millisecond})
		err := e.nest(t.Context(), e.fence, 10, func() {
			if err := claimOrEvict(t.Context(), store, newer); err != nil {
				t.Errorf("the successor: %v", err)
			}
		})
		if err == nil {
			t.Error("the holder that was evicted got no error")
		}
		if got := e.balance(t); got != 100 {
			t.Errorf("got a balance of %d, want all of 100", got)
		}
	})
}
