package fencedlock

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

func TestReleaseDoesNotNeedALiveContext(t *testing.T) {
	t.Parallel()
	m := newMemory()
	l := testLocker(t, m, newSkewed(), nil)
	k := mustAcquire(t, l, "r")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.Release(ctx); err != nil || m.live() != 0 {
		t.Errorf("Release: %v, %d locks left", err, m.live())
	}
}

func TestReleaseIsIdempotent(t *testing.T) {
	t.Parallel()
	m := newMemory()
	released := 0
	l := testLocker(t, m, newSkewed(), &Options{Hooks: &Hooks{
		Released: func(fencedstore.Fence, time.Duration) { released++ },
	}})
	k := mustAcquire(t, l, "r")
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if err := k.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if m.count(opRelease) != 1 || released != 1 {
		t.Errorf("%d questions, %d hooks", m.count(opRelease), released)
	}
}

func TestLateReleaseSaysSoInOneRoundTrip(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(*memory)
		want Reason
	}{
		"expired":  {func(m *memory) { pass(500 * time.Millisecond) }, RenewFailed},
		"absent":   {(*memory).wipe, Expired},
		"overtake": {func(m *memory) { m.steal("r") }, Taken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.fault(func(_ context.Context, asked *call) error {
					if asked.op == opRenew {
						return errDown
					}
					return nil
				})
				l := testLocker(t, m, newSkewed(), &Options{TTL: 100 * time.Millisecond})
				k := mustAcquire(t, l, "r")
				c.harm(m)
				before := m.live()
				start := time.Now()
				err := k.Release(t.Context())
				if lostReason(t, err) != c.want || time.Since(start) != 0 || m.count(opRelease) != 1 {
					t.Errorf("%v after %v and %d questions", err, time.Since(start), m.count(opRelease))
				}
				if m.live() != before {
					t.Errorf("%d locks, %d before the release", m.live(), before)
				}
				if again := k.Release(t.Context()); !errors.Is(again, err) || m.count(opRelease) != 1 {
					t.Errorf("second release: %v", again)
				}
			})
		})
	}
}

func TestReleaseThatRedisCannotAnswerSaysWhenTheLockExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: time.Minute})
		k := mustAcquire(t, l, "r")
		ctx, cancel := k.Context(t.Context())
		defer cancel()
		m.fault(func(ctx context.Context, _ *call) error { return hang(ctx) })
		start := time.Now()
		err := k.Release(t.Context())
		var u *UnavailableError
		if !errors.As(err, &u) || u.Op != "release" || u.ExpiresIn > time.Minute || u.ExpiresIn < 50*time.Second || !strings.Contains(err.Error(), "ms or less") {
			t.Fatalf("Release: %v", err)
		}
		if waited := time.Since(start); waited > closeTimeout+time.Second {
			t.Errorf("returned after %v", waited)
		}
		if !errors.Is(context.Cause(ctx), ErrReleased) || !errors.Is(k.Err(), ErrReleased) {
			t.Errorf("cause %v, Err %v", context.Cause(ctx), k.Err())
		}
		m.fault(nil)
		if err := k.Release(t.Context()); err != nil || m.live() != 0 {
			t.Errorf("second release: %v, %d locks left", err, m.live())
		}
	})
}

func TestLostAnswerOfAReleaseIsNotALostLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		lose := true
		m.after = func(_ context.Context, c *call) error {
			if c.op == opRelease && lose {
				lose = false
				return &faultError{err: errors.New("connection reset"), ran: true}
			}
			return nil
		}
		l := testLocker(t, m, newSkewed(), nil)
		k := mustAcquire(t, l, "r")
		if err := k.Release(t.Context()); err != nil || m.count(opRelease) != 2 {
			t.Errorf("Release: %v after %d questions", err, m.count(opRelease))
		}
	})
}

func TestCloseEndsAndReleasesEveryLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl})
		var locks []*Lock
		for _, r := range []string{"a", "b", "c"} {
			locks = append(locks, mustAcquire(t, l, r))
		}
		ctx, cancel := locks[0].Context(t.Context())
		defer cancel()
		waiting := make(chan error)
		go func() {
			_, err := l.Acquire(t.Context(), "a", nil)
			waiting <- err
		}()
		synctest.Wait()
		if err := l.Close(); err != nil || m.live() != 0 {
			t.Errorf("Close: %v, %d locks left", err, m.live())
		}
		if err := <-waiting; !errors.Is(err, ErrClosed) {
			t.Errorf("waiting Acquire: %v", err)
		}
		for _, k := range locks {
			if lostReason(t, k.Err()) != Closed || !errors.Is(k.Err(), ErrClosed) {
				t.Errorf("lock: %v", k.Err())
			}
			if lostReason(t, k.Release(t.Context())) != Closed {
				t.Error("Release of a closed lock")
			}
		}
		if lostReason(t, context.Cause(ctx)) != Closed {
			t.Errorf("cause %v", context.Cause(ctx))
		}
		if _, err := l.Acquire(t.Context(), "a", nil); !errors.Is(err, ErrClosed) {
			t.Errorf("Acquire: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
}

func TestAcquireUnderWayAtCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), nil)
		m.after = func(_ context.Context, c *call) error {
			if c.op == opAcquire {
				_ = l.Close() //nolint:contextcheck // Close has no context
			}
			return nil
		}
		if _, err := l.Acquire(t.Context(), "r", nil); !errors.Is(err, ErrClosed) || m.live() != 0 {
			t.Errorf("%v, %d locks left", err, m.live())
		}
	})
}

func TestCloseWithoutRedisIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), nil)
		for _, r := range []string{"a", "b"} {
			mustAcquire(t, l, r)
		}
		m.fault(func(ctx context.Context, _ *call) error { return hang(ctx) })
		start := time.Now()
		if err := l.Close(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("Close: %v", err)
		}
		if waited := time.Since(start); waited > 2*closeTimeout {
			t.Errorf("Close took %v", waited)
		}
	})
}
