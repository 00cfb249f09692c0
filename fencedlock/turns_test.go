package fencedlock_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/memstore"
	"github.com/fenced-go/fenced/internal/testenv"
)

// TestForcedReleaseRefusesATurn has a lock that was passed on in memory, with a
// fence above the one that Redis knows, ended by force.
func TestForcedReleaseRefusesATurn(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	store := memstore.New()
	opts := &fencedlock.Options{Stores: []fencedstore.Claimer{store}}
	first := acquire(t, locker(t, client(t, srv.Addr()), opts), "r")
	l := locker(t, client(t, srv.Addr()), opts)
	got := make(chan *fencedlock.Lock, 2)
	for range 2 {
		go func() {
			k, err := l.Acquire(t.Context(), "r", nil)
			if err != nil {
				t.Errorf("Acquire: %v", err)
			}
			got <- k
		}()
	}
	testenv.Eventually(t, patience, "the Locker queues", func() bool { return queued(t, srv) == 1 })
	release(t, first)
	head := <-got
	release(t, head)
	turn := <-got
	operator := locker(t, client(t, srv.Addr()), opts)
	s, err := operator.Inspect(t.Context(), "r")
	if err != nil || !s.Held {
		t.Fatalf("Inspect: %+v, %v", s, err)
	}
	if err := operator.ForceRelease(t.Context(), "r", s.FenceID); err != nil {
		t.Fatal(err)
	}
	if err := store.Write(t.Context(), turn.Fence(), "k", []byte("after")); !errors.Is(err, fencedstore.ErrStale) {
		t.Errorf("a write of fence %d, ended as %d: %v", turn.Fence().ID, s.FenceID, err)
	}
	if err := turn.Renew(t.Context()); reason(err) != fencedlock.Forced {
		t.Errorf("the old holder is told %v", err)
	}
}

// TestTurnMayComeWhileItsWaiterSpeaks needs the race detector: a turn is passed to
// waiters that are still telling who is in their way.
func TestTurnMayComeWhileItsWaiterSpeaks(t *testing.T) {
	t.Parallel()
	l := locker(t, client(t, testenv.NewRedis(t).Addr()), nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				k, err := l.Acquire(t.Context(), "r", nil)
				if err == nil {
					err = k.Release(t.Context())
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestGrantToAWaiterIsReplicatedToo has a waiter that asks for a replica be
// granted the lock by a holder that does not, where there is none.
func TestGrantToAWaiterIsReplicatedToo(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	k := acquire(t, locker(t, client(t, srv.Addr()), nil), "r")
	w := wait(t, srv, locker(t, client(t, srv.Addr()), &fencedlock.Options{Durability: fencedlock.Durability{Replicas: 1}}))
	release(t, k)
	if a := <-w; a.lock != nil || !errors.Is(a.err, fencedlock.ErrNotReplicated) {
		t.Errorf("got %v, %v", a.lock, a.err)
	}
	testenv.Eventually(t, patience, "it is given back", func() bool { return srv.Do(t, "EXISTS", lockKey) == int64(0) })
}

// TestKeptNameIsNotPassedOn has the first of two waiters keep the name after its
// release.
func TestKeptNameIsNotPassedOn(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	first := acquire(t, locker(t, client(t, srv.Addr()), nil), "r")
	l := locker(t, client(t, srv.Addr()), nil)
	const keep = 700 * time.Millisecond
	got := make(chan *fencedlock.Lock, 2)
	for range 2 {
		go func() {
			k, err := l.Acquire(t.Context(), "r", &fencedlock.AcquireOptions{KeepFor: keep})
			if err != nil {
				t.Errorf("Acquire: %v", err)
			}
			got <- k
		}()
	}
	testenv.Eventually(t, patience, "the Locker queues", func() bool { return queued(t, srv) == 1 })
	release(t, first)
	head := <-got
	release(t, head)
	if srv.Do(t, "EXISTS", lockKey) != int64(1) {
		t.Error("the name is free")
	}
	next := <-got
	if next.Fence().ID <= head.Fence().ID || next.Fence().Time().Sub(head.Fence().Time()) < keep/2 {
		t.Errorf("passed on after %v", next.Fence().Time().Sub(head.Fence().Time()))
	}
	release(t, next)
}
