package locktest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedlock/locktest"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/memstore"
)

const resource = "invoices"

// names include the bytes that keys escape.
var names = []string{resource, "a{b}c", "100%", "{", "a:lock", "x y\n\x00\xff", strings.Repeat("r", fencedstore.MaxResource)}

func acquire(tb testing.TB, l *fencedlock.Locker, resource string) *fencedlock.Lock {
	tb.Helper()
	k, err := l.TryAcquire(tb.Context(), resource, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// eventually polls for ten seconds.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 10*time.Second)
	defer cancel()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			tb.Fatalf("not within 10 s: %s", what)
		case <-poll.C:
		}
	}
}

// receive waits for ten seconds.
func receive[T any](tb testing.TB, what string, from <-chan T) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 10*time.Second)
	defer cancel()
	select {
	case <-from:
	case <-ctx.Done():
		tb.Fatalf("not within 10 s: %s", what)
	}
}

func TestTTLsRunDownByThemselves(t *testing.T) {
	t.Parallel()
	rdb := locktest.Start(t).Client(t)
	const ttl = 150 * time.Millisecond
	began := time.Now()
	if err := rdb.Set(t.Context(), "k", "v", ttl).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the key is gone", func() bool { return rdb.Exists(t.Context(), "k").Val() == 0 })
	if took := time.Since(began); took < ttl {
		t.Errorf("gone after %v, before its TTL of %v", took, ttl)
	}
}

func TestLockIsRenewedBeyondItsTTL(t *testing.T) {
	t.Parallel()
	s := locktest.Start(t)
	const ttl = 2 * time.Second
	renewed := make(chan struct{}, 1000)
	l := s.Locker(t, &fencedlock.Options{TTL: ttl, RenewEvery: 50 * time.Millisecond, Hooks: &fencedlock.Hooks{
		Renewed: func(fencedstore.Fence) { renewed <- struct{}{} },
	}})
	k := acquire(t, l, resource)
	for began := time.Now(); time.Since(began) < ttl+ttl/10; {
		receive(t, "a renewal", renewed)
	}
	if err := k.Err(); err != nil || !s.Held(resource) {
		t.Errorf("got %v, held %t, want the lock to be held", err, s.Held(resource))
	}
}

func TestStealTakesTheLockWithAHigherFence(t *testing.T) {
	t.Parallel()
	for _, name := range names {
		s := locktest.Start(t)
		k := acquire(t, s.Locker(t, &fencedlock.Options{Prefix: "app:"}), name)
		thief := s.Steal(t, name)
		if thief.ID <= k.Fence().ID || thief.Resource != name || thief.Holder == k.Fence().Holder {
			t.Errorf("%.20q: got %v after %v, want a higher one of another holder", name, thief, k.Fence())
		}
		var lost *fencedlock.LostError
		if err := k.Renew(t.Context()); !errors.As(err, &lost) || lost.Reason != fencedlock.Taken {
			t.Errorf("%.20q: renew: got %v, want the lock to be taken", name, err)
		}
		var held *fencedlock.HeldError
		_, err := s.Locker(t, &fencedlock.Options{Prefix: "app:"}).TryAcquire(t.Context(), name, nil)
		if !errors.As(err, &held) || held.FenceID != thief.ID {
			t.Errorf("%.20q: got %v, want it held by the thief", name, err)
		}
	}
}

func TestStealOfAFreeResourceTakesIt(t *testing.T) {
	t.Parallel()
	s := locktest.Start(t)
	first := s.Steal(t, resource)
	_, err := s.Locker(t, nil).TryAcquire(t.Context(), resource, nil)
	if !errors.Is(err, fencedlock.ErrHeld) {
		t.Errorf("got %v, want ErrHeld", err)
	}
	if second := s.Steal(t, resource); second.ID <= first.ID {
		t.Errorf("got %v after %v, want a higher one", second, first)
	}
}

// TestJobThatLosesItsLockHalfWay is the test that the package's documentation
// shows.
func TestJobThatLosesItsLockHalfWay(t *testing.T) {
	t.Parallel()
	server, store := locktest.Start(t), memstore.New()
	locker := server.Locker(t, &fencedlock.Options{Stores: []fencedstore.Claimer{store}})

	err := locker.Do(t.Context(), "invoices", nil, func(ctx context.Context, f fencedstore.Fence) error {
		successor := server.Steal(t, "invoices") //nolint:contextcheck // Steal has the test's context
		if err := store.Claim(ctx, successor); err != nil {
			return err
		}
		return store.Write(ctx, f, "invoice/7", []byte("30"))
	})
	if !errors.Is(err, fencedstore.ErrStale) {
		t.Errorf("got %v, want the store to refuse the job", err)
	}
}

func TestExpireEndsOneLease(t *testing.T) {
	t.Parallel()
	for _, name := range names {
		s := locktest.Start(t)
		l := s.Locker(t, nil)
		k, other := acquire(t, l, name), acquire(t, l, "the other resource")
		if !s.Held(name) || !s.Expire(name) || s.Held(name) || s.Expire(name) {
			t.Errorf("%.20q: want it held, then expired once", name)
		}
		var lost *fencedlock.LostError
		if err := k.Renew(t.Context()); !errors.As(err, &lost) || lost.Reason != fencedlock.Expired {
			t.Errorf("%.20q: got %v, want it to be expired", name, err)
		}
		if err := other.Renew(t.Context()); err != nil {
			t.Errorf("%.20q: the other lock: got %v, want it held", name, err)
		}
	}
}

func TestWipeLosesLocksButNotTheOrderOfFences(t *testing.T) {
	t.Parallel()
	s := locktest.Start(t)
	l := s.Locker(t, nil)
	k := acquire(t, l, resource)
	s.Wipe()
	if err := k.Renew(t.Context()); !errors.Is(err, fencedlock.ErrLost) {
		t.Errorf("renew: got %v, want ErrLost", err)
	}
	if next := acquire(t, l, resource); next.Fence().ID <= k.Fence().ID {
		t.Errorf("got %v after %v, want a higher one", next.Fence(), k.Fence())
	}
}

func TestServersShareNothing(t *testing.T) {
	t.Parallel()
	a, b := locktest.Start(t), locktest.Start(t)
	acquire(t, a.Locker(t, nil), resource)
	acquire(t, b.Locker(t, nil), resource)
	if a.Addr() == b.Addr() {
		t.Errorf("both are at %s", a.Addr())
	}
}

func TestServerOutsideOfTests(t *testing.T) {
	t.Parallel()
	s, err := locktest.NewServer()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.Addr(), "127.0.0.1:") {
		t.Errorf("it listens on %s, want 127.0.0.1", s.Addr())
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	s.Close()
	if err := rdb.Ping(t.Context()).Err(); err == nil {
		t.Error("it answers after Close")
	}
}
