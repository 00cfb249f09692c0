package fencedlock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/memstore"
	"github.com/fenced-go/fenced/internal/testenv"
)

func TestForcedReleaseRefusesTheOldHolderFromThatMoment(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	store := memstore.New()
	opts := &fencedlock.Options{Stores: []fencedstore.Claimer{store}, RenewEvery: 10 * time.Second}
	victim := acquire(t, locker(t, client(t, srv.Addr()), opts), "r")
	if err := store.Write(t.Context(), victim.Fence(), "k", []byte("before")); err != nil {
		t.Fatal(err)
	}
	operator := locker(t, client(t, srv.Addr()), opts)
	if err := operator.ForceRelease(t.Context(), "r", victim.Fence().ID); err != nil {
		t.Fatal(err)
	}
	if err := store.Write(t.Context(), victim.Fence(), "k", []byte("after")); !errors.Is(err, fencedstore.ErrStale) {
		t.Errorf("a write of the old holder, before anybody has the lock again: %v", err)
	}
	if s, err := operator.Inspect(t.Context(), "r"); err != nil || s.Held || s.Newest <= victim.Fence().ID {
		t.Errorf("Inspect: %+v, %v", s, err)
	}
	next := acquire(t, operator, "r")
	if err := store.Write(t.Context(), next.Fence(), "k", []byte("next")); err != nil {
		t.Errorf("a write of the next holder: %v", err)
	}
	if err := victim.Renew(t.Context()); reason(err) != fencedlock.Forced || reason(victim.Err()) != fencedlock.Forced {
		t.Errorf("the old holder is told %v", err)
	}
	if err := next.Renew(t.Context()); err != nil {
		t.Errorf("the next holder: %v", err)
	}
}

func TestForcedReleaseIsNoticedByTheNextRenewal(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr()), &fencedlock.Options{RenewEvery: 50 * time.Millisecond})
	victim := acquire(t, l, "r")
	if err := l.ForceRelease(t.Context(), "r", victim.Fence().ID); err != nil {
		t.Fatal(err)
	}
	select {
	case <-victim.Done():
	case <-time.After(patience):
		t.Fatal("never")
	}
	if reason(victim.Err()) != fencedlock.Forced {
		t.Errorf("got %v", victim.Err())
	}
}

// TestReleaseOfAForcedOutHolderSaysSo has a holder learn of the forced release by
// its own release: with the resource free by then, and with another holder.
func TestReleaseOfAForcedOutHolderSaysSo(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr()), nil)
	for _, taken := range []bool{false, true} {
		victim := acquire(t, l, "r")
		if err := l.ForceRelease(t.Context(), "r", victim.Fence().ID); err != nil {
			t.Fatal(err)
		}
		var next *fencedlock.Lock
		if taken {
			next = acquire(t, l, "r")
		}
		for range 2 { // the second call sends nothing
			if err := victim.Release(t.Context()); reason(err) != fencedlock.Forced {
				t.Errorf("taken %v: Release: %v", taken, err)
			}
		}
		if next != nil {
			release(t, next)
		}
	}
	late := acquire(t, l, "r")
	srv.Do(t, "DEL", lockKey)
	if err := late.Release(t.Context()); reason(err) != fencedlock.Expired {
		t.Errorf("Release of a lock that vanished: %v", err)
	}
}

func TestForcedReleaseNeedsTheFenceItMeans(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr()), &fencedlock.Options{Label: "worker 7"})
	var mismatch *fencedlock.FenceMismatchError
	if err := l.ForceRelease(t.Context(), "r", 41); !errors.As(err, &mismatch) || mismatch.Got != 0 || !errors.Is(err, fencedlock.ErrFenceMismatch) {
		t.Errorf("a free resource: %v", err)
	}
	k := acquire(t, l, "r")
	before := dump(t, srv)
	err := l.ForceRelease(t.Context(), "r", k.Fence().ID-1)
	if !errors.As(err, &mismatch) || mismatch.Want != k.Fence().ID-1 || mismatch.Got != k.Fence().ID || mismatch.Label != "worker 7" {
		t.Errorf("another fence: %v", err)
	}
	for _, id := range []int64{0, -1, 1 << 62} {
		if err := l.ForceRelease(t.Context(), "r", id); !errors.Is(err, fencedlock.ErrInvalidArgument) {
			t.Errorf("fence %d: %v", id, err)
		}
	}
	if now := dump(t, srv); now != before || k.Renew(t.Context()) != nil {
		t.Errorf("the keys changed from\n%sto\n%s", before, now)
	}
}

func TestForcedReleaseWithAStoreThatIsDownIsAnError(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	down := errors.New("down")
	k := acquire(t, locker(t, client(t, srv.Addr()), nil), "r")
	operator := locker(t, client(t, srv.Addr()), &fencedlock.Options{Stores: []fencedstore.Claimer{failing{down}}})
	if err := operator.ForceRelease(t.Context(), "r", k.Fence().ID); !errors.Is(err, down) {
		t.Errorf("got %v", err)
	}
	// behind its caller, if Redis takes its time
	testenv.Eventually(t, patience, "the lock is free", func() bool { return srv.Do(t, "EXISTS", lockKey) == int64(0) })
}
