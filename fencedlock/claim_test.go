package fencedlock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

// claims is a store that remembers what it was told.
type claims struct {
	mu    sync.Mutex
	mark  int64
	owner string
	seen  []int64
	claim func(ctx context.Context, f fencedstore.Fence) error // instead, when set
}

func (s *claims) Claim(ctx context.Context, f fencedstore.Fence) error {
	s.mu.Lock()
	s.seen = append(s.seen, f.ID)
	s.mu.Unlock()
	if s.claim != nil {
		return s.claim(ctx, f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case f.ID < s.mark:
		return &fencedstore.StaleError{Fence: f, Newest: s.mark}
	case f.ID == s.mark && f.Holder != s.owner:
		return &fencedstore.FenceReusedError{Fence: f}
	}
	s.mark, s.owner = f.ID, f.Holder
	return nil
}

func (s *claims) claimed() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

func TestEveryStoreHasClaimedWhenAcquireReturns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := func(context.Context, fencedstore.Fence) error { pass(time.Second); return nil }
		a, b, c := &claims{claim: slow}, &claims{claim: slow}, &claims{claim: slow}
		l := testLocker(t, newMemory(), newSkewed(), &Options{Stores: []fencedstore.Claimer{a, b, c}})
		start := time.Now()
		k := mustAcquire(t, l, "r")
		for _, s := range []*claims{a, b, c} {
			if got := s.claimed(); !slices.Equal(got, []int64{k.Fence().ID}) {
				t.Errorf("claimed %v, want %d", got, k.Fence().ID)
			}
		}
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("three claims of a second took %v, want them in parallel", waited)
		}
		k2, err := l.Acquire(t.Context(), "other", &AcquireOptions{Stores: []fencedstore.Claimer{}})
		if err != nil || len(a.claimed()) != 1 {
			t.Errorf("an empty list of stores: %v, %v", k2, err)
		}
	})
}

func TestStoreThatKnowsANewerFenceHealsTheLock(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]func(now int64) (int64, string){
		"stale":  func(now int64) (int64, string) { return now + 1_000_000, "older" },
		"reused": func(now int64) (int64, string) { return now + 1, "another" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				ahead, behind := &claims{}, &claims{}
				ahead.mark, ahead.owner = mark(time.Now().UnixMicro())
				l := testLocker(t, m, newSkewed(), &Options{TTL: ttl, Stores: []fencedstore.Claimer{behind, ahead}})
				before := ahead.mark
				k := mustAcquire(t, l, "r")
				if k.Fence().ID != before+1 || ahead.mark != k.Fence().ID || behind.mark != k.Fence().ID {
					t.Errorf("fence %d above the mark %d; stores at %d and %d", k.Fence().ID, before, ahead.mark, behind.mark)
				}
				if m.count(opAcquire) != 2 || len(behind.claimed()) != 2 {
					t.Errorf("%d questions, %d claims", m.count(opAcquire), len(behind.claimed()))
				}
				pass(10 * ttl)
				if k.Err() != nil {
					t.Errorf("the healed lock was not renewed: %v", k.Err())
				}
				if err := k.Release(t.Context()); err != nil || m.live() != 0 {
					t.Errorf("Release: %v, %d locks left", err, m.live())
				}
			})
		})
	}
}

func TestFailedClaimReleases(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk full")
	unknown := &fencedstore.UnknownOutcomeError{Op: "claim"}
	climbing := int64(0)
	for name, c := range map[string]struct {
		claim  func(context.Context, fencedstore.Fence) error
		want   error
		claims int
	}{
		"other error":     {func(context.Context, fencedstore.Fence) error { return broken }, broken, 1},
		"unknown outcome": {func(context.Context, fencedstore.Fence) error { return unknown }, fencedstore.ErrUnknownOutcome, claimTries},
		"always stale": {func(_ context.Context, f fencedstore.Fence) error {
			climbing = f.ID + 10
			return &fencedstore.StaleError{Fence: f, Newest: climbing}
		}, fencedstore.ErrStale, claimRounds + 1},
		"poisoned mark": {func(_ context.Context, f fencedstore.Fence) error {
			return &fencedstore.StaleError{Fence: f, Newest: 1<<63 - 1}
		}, ErrConfig, 1},
		"mark at the bound": {func(_ context.Context, f fencedstore.Fence) error {
			return &fencedstore.StaleError{Fence: f, Newest: 1<<62 - 1}
		}, ErrConfig, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				s := &claims{claim: c.claim}
				l := testLocker(t, m, newSkewed(), nil)
				k, err := l.Acquire(t.Context(), "r", &AcquireOptions{Stores: []fencedstore.Claimer{&claims{}, s}})
				if k != nil || !errors.Is(err, c.want) {
					t.Fatalf("got %v, %v, want %v", k, err, c.want)
				}
				if !errors.Is(c.want, ErrConfig) && !strings.Contains(err.Error(), "store 1 (*fencedlock.claims)") {
					t.Errorf("the error does not tell which store: %v", err)
				}
				if len(s.claimed()) != c.claims || m.live() != 0 {
					t.Errorf("%d claims, want %d; %d locks left", len(s.claimed()), c.claims, m.live())
				}
			})
		})
	}
}

func TestClaimOfUnknownOutcomeIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		s := &claims{claim: func(context.Context, fencedstore.Fence) error {
			if tries++; tries < claimTries {
				return &fencedstore.UnknownOutcomeError{Op: "claim"}
			}
			return nil
		}}
		l := testLocker(t, newMemory(), newSkewed(), &Options{Stores: []fencedstore.Claimer{s}})
		k := mustAcquire(t, l, "r")
		for _, id := range s.claimed() {
			if id != k.Fence().ID {
				t.Errorf("claimed %d, want %d each time", id, k.Fence().ID)
			}
		}
	})
}

func TestLeaseIsRenewedWhileTheStoresClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := &claims{claim: func(context.Context, fencedstore.Fence) error { pass(10 * ttl); return nil }}
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl, Stores: []fencedstore.Claimer{s}})
		k := mustAcquire(t, l, "r")
		if k.Err() != nil || m.count(opRenew) < 20 {
			t.Errorf("%v after %d renewals", k.Err(), m.count(opRenew))
		}
	})
}

func TestLeaseThatEndsWhileTheStoresClaimIsNotReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		var cause error
		s := &claims{claim: func(ctx context.Context, _ fencedstore.Fence) error {
			m.steal("r")
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil // too late, but the store said yes
		}}
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl, Stores: []fencedstore.Claimer{s}})
		k, err := l.Acquire(t.Context(), "r", nil)
		if k != nil || lostReason(t, err) != Taken || lostReason(t, cause) != Taken {
			t.Errorf("got %v, %v; the store's context ended with %v", k, err, cause)
		}
		if m.live() != 1 {
			t.Error("the successor's lock is gone")
		}
	})
}

func TestEndOfTheContextEndsTheClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := &claims{claim: func(ctx context.Context, _ fencedstore.Fence) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		l := testLocker(t, m, newSkewed(), &Options{Stores: []fencedstore.Claimer{s}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Acquire(ctx, "r", nil); !errors.Is(err, context.DeadlineExceeded) || m.live() != 0 {
			t.Errorf("%v, %d locks left", err, m.live())
		}
	})
}
