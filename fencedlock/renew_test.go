package fencedlock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

const ttl = 3 * time.Second

func mustAcquire(t *testing.T, l *Locker, resource string) *Lock {
	t.Helper()
	k, err := l.Acquire(t.Context(), resource, nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func lostReason(t *testing.T, err error) Reason {
	t.Helper()
	var lost *LostError
	if !errors.As(err, &lost) || !errors.Is(err, ErrLost) {
		t.Fatalf("error %v, want a *LostError", err)
	}
	return lost.Reason
}

func TestLockIsRenewedUntilItsRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl})
		k := mustAcquire(t, l, "r")
		for range 50 {
			pass(ttl / 5)
			if left := k.Remaining(); left < ttl/2 || left > ttl {
				t.Fatalf("Remaining %v of %v", left, ttl)
			}
		}
		if err := k.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		renewals := m.count(opRenew)
		if renewals < 25 || renewals > 45 {
			t.Errorf("%d renewals in ten TTLs, want about 30", renewals)
		}
		pass(10 * ttl)
		if got := m.count(opRenew); got != renewals || m.live() != 0 {
			t.Errorf("%d renewals after the release, %d locks", got-renewals, m.live())
		}
	})
}

func TestLeaseEndsInTimeWhileTheRenewalIsStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl})
		k := mustAcquire(t, l, "r")
		start := time.Now()
		ctx, cancel := k.Context(t.Context())
		defer cancel()
		m.fault(func(ctx context.Context, c *call) error { return hang(ctx) })
		<-k.Done()
		if got, want := time.Since(start), ttl-margin(ttl); got != want {
			t.Errorf("lost after %v, want %v", got, want)
		}
		if got := lostReason(t, k.Err()); got != RenewFailed {
			t.Errorf("reason %v", got)
		}
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), k.Err()) || !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("cause %v, want %v", context.Cause(ctx), k.Err())
		}
		if k.Remaining() != 0 {
			t.Errorf("Remaining %v after the loss", k.Remaining())
		}
	})
}

func TestRenewalIsRetriedUntilTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl})
		k := mustAcquire(t, l, "r")
		var tries atomic.Int64
		m.fault(func(_ context.Context, c *call) error {
			if c.op == opRenew && tries.Add(1) < 6 {
				return errDown
			}
			return nil
		})
		pass(10 * ttl)
		if k.Err() != nil {
			t.Fatalf("lost in spite of five failures only: %v", k.Err())
		}
	})
}

func TestTerminalAnswersEndTheLockAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(*memory)
		want Reason
	}{
		"absent": {(*memory).wipe, Expired},
		"taken":  {func(m *memory) { m.steal("r") }, Taken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				l := testLocker(t, m, newSkewed(), &Options{TTL: ttl})
				k := mustAcquire(t, l, "r")
				c.harm(m)
				start := time.Now()
				<-k.Done()
				if waited := time.Since(start); waited > ttl/3 {
					t.Errorf("noticed after %v, want the next renewal", waited)
				}
				if got := lostReason(t, k.Err()); got != c.want {
					t.Errorf("reason %v, want %v", got, c.want)
				}
				renewals := m.count(opRenew)
				pass(5 * ttl)
				if m.count(opRenew) != renewals {
					t.Error("renewed after the loss")
				}
				if got := lostReason(t, k.Release(t.Context())); got != c.want {
					t.Errorf("Release: reason %v, want %v", got, c.want)
				}
			})
		})
	}
}

func TestLossIsSignalledOnceWithTheFirstCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		var signals atomic.Int64
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl, Hooks: &Hooks{
			Lost: func(context.Context, *LostError) { signals.Add(1) },
		}})
		k := mustAcquire(t, l, "r")
		var tries atomic.Int64
		m.fault(func(_ context.Context, c *call) error {
			switch tries.Add(1) {
			case 1, 2:
				return errDown
			case 3:
				m.steal("r")
			}
			return nil
		})
		<-k.Done()
		first := k.Err()
		if got := lostReason(t, first); got != Taken {
			t.Errorf("reason %v, want %v", got, Taken)
		}
		pass(2 * ttl)
		if !errors.Is(k.Err(), first) || signals.Load() != 1 {
			t.Errorf("%d signals, error %v then %v", signals.Load(), first, k.Err())
		}
	})
}

func TestLostLockStaysLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl})
		k := mustAcquire(t, l, "r")
		m.fault(func(context.Context, *call) error { return errDown })
		<-k.Done()
		m.fault(nil)
		err := k.Renew(t.Context())
		if lostReason(t, err) != RenewFailed || !errors.Is(err, errDown.err) || k.Remaining() != 0 {
			t.Errorf("Renew after the loss: %v", err)
		}
	})
}

func TestRenewalWorksAgainAfterAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl})
		first := mustAcquire(t, l, "r")
		m.fault(func(context.Context, *call) error { return errDown })
		pass(2 * ttl)
		if first.Err() == nil {
			t.Fatal("held through an outage of two TTLs")
		}
		m.fault(nil)
		second := mustAcquire(t, l, "r")
		pass(3 * ttl)
		if second.Err() != nil || second.Remaining() < ttl/2 {
			t.Errorf("after the outage: %v, Remaining %v", second.Err(), second.Remaining())
		}
	})
}

func TestSuspendedMachineConfirmsItsLeasesOrLosesThem(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]bool{"confirmed": false, "not confirmed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m, s := newMemory(), newSkewed()
				l := testLocker(t, m, s, &Options{TTL: 10 * time.Second})
				k := mustAcquire(t, l, "r")
				if down {
					m.fault(func(ctx context.Context, _ *call) error { return hang(ctx) })
				}
				renewals := m.count(opRenew)
				s.step(time.Minute)
				if left := k.Remaining(); left != 0 {
					t.Errorf("Remaining %v right after the jump", left)
				}
				start := time.Now()
				synctest.Wait()
				if !down {
					if k.Err() != nil || k.Remaining() < 9*time.Second || m.count(opRenew) != renewals+1 {
						t.Errorf("after %d renewals: %v, Remaining %v", m.count(opRenew)-renewals, k.Err(), k.Remaining())
					}
					return
				}
				<-k.Done()
				if waited := time.Since(start); waited > 10*time.Second/3 {
					t.Errorf("in doubt for %v", waited)
				}
				if got := lostReason(t, k.Err()); got != RenewFailed {
					t.Errorf("reason %v", got)
				}
			})
		})
	}
}

func TestSuspendIsNoticedWithoutBeingAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, s := newMemory(), newSkewed()
		l := testLocker(t, m, s, &Options{TTL: time.Hour})
		k := mustAcquire(t, l, "r")
		done := k.Done()
		m.wipe()
		s.step(2 * time.Hour)
		start := time.Now()
		<-done
		if waited := time.Since(start); waited > maxSleep {
			t.Errorf("noticed after %v, want at most %v", waited, maxSleep)
		}
	})
}

func TestStepsOfTheWallClockDoNotEndAHealthyLease(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{-10 * time.Minute, -time.Second, 10 * time.Minute} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m, s := newMemory(), newSkewed()
				l := testLocker(t, m, s, &Options{TTL: ttl})
				k := mustAcquire(t, l, "r")
				fence := k.Fence().ID
				s.step(step)
				pass(5 * ttl)
				if k.Err() != nil || k.Remaining() < ttl/2 {
					t.Fatalf("%v, Remaining %v", k.Err(), k.Remaining())
				}
				if err := k.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				if next := mustAcquire(t, l, "r"); next.Fence().ID <= fence {
					t.Errorf("fence %d after %d", next.Fence().ID, fence)
				}
			})
		})
	}
}

func TestTheFurtherClockCounts(t *testing.T) {
	t.Parallel()
	start := instant{mono: time.Minute, wall: time.Hour}
	e := lease{start: start, ttl: 10 * time.Second}
	whole := e.ttl - margin(e.ttl)
	for _, c := range []struct {
		mono, wall time.Duration
		left       time.Duration
		doubtful   bool
	}{
		{0, 0, whole, false},
		{time.Second, time.Second, whole - time.Second, false},
		{time.Second, time.Second + 50*time.Millisecond, whole - time.Second - 50*time.Millisecond, false},
		{time.Second, -time.Hour, whole - time.Second, false},
		{time.Second, 2 * time.Second, whole - 2*time.Second, true},
		{20 * time.Second, 0, whole - 20*time.Second, false},
	} {
		now := instant{mono: start.mono + c.mono, wall: start.wall + c.wall}
		if got := e.left(now); got != c.left {
			t.Errorf("after %v and %v: left %v, want %v", c.mono, c.wall, got, c.left)
		}
		if got := e.doubtful(now); got != c.doubtful {
			t.Errorf("after %v and %v: doubtful %v", c.mono, c.wall, got)
		}
	}
}

func TestLeaseCountsFromBeforeTheSend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.after = func(context.Context, *call) error {
			pass(ttl / 6)
			return nil
		}
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl})
		k := mustAcquire(t, l, "r")
		if got, want := k.Remaining(), ttl-margin(ttl)-ttl/6; got != want {
			t.Errorf("Remaining %v after a slow reply, want %v", got, want)
		}
	})
}

func TestMaxHoldEndsTheLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl, MaxHold: 5 * ttl})
		start := time.Now()
		k := mustAcquire(t, l, "r")
		<-k.Done()
		if got := time.Since(start); got != 5*ttl {
			t.Errorf("ended after %v", got)
		}
		if got := lostReason(t, k.Err()); got != MaxHold {
			t.Errorf("reason %v", got)
		}
	})
}

// It counts goroutines, so no other test runs beside it.
func TestTenThousandLocksNeedFewRoundTripsAndGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		m := newMemory()
		var lost atomic.Int64
		l := testLocker(t, m, newSkewed(), &Options{TTL: 10 * time.Second, Hooks: &Hooks{
			Lost: func(context.Context, *LostError) { lost.Add(1) },
		}})
		before := runtime.NumGoroutine()
		locks := make([]*Lock, n)
		for i := range locks {
			locks[i] = mustAcquire(t, l, fmt.Sprint("r", i))
		}
		most := 0
		for range 60 {
			pass(500 * time.Millisecond)
			most = max(most, runtime.NumGoroutine()-before)
		}
		for _, k := range locks {
			if k.Err() != nil {
				t.Fatal(k.Err())
			}
		}
		renewals := m.count(opRenew)
		if lost.Load() != 0 || renewals < 8*n {
			t.Errorf("%d lost, %d renewals", lost.Load(), renewals)
		}
		if renewals < 20*m.roundTrips() {
			t.Errorf("%d renewals in %d round trips", renewals, m.roundTrips())
		}
		if most > 50 {
			t.Errorf("%d goroutines more", most)
		}
	})
}

func TestSchedulerEndsByItselfAndStartsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := testLocker(t, newMemory(), newSkewed(), &Options{TTL: time.Hour})
		for range 3 {
			k := mustAcquire(t, l, "r")
			if err := k.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			pass(maxSleep)
			synctest.Wait()
			l.scheduler.Lock()
			running := l.scheduler.running
			l.scheduler.Unlock()
			if running {
				t.Error("the goroutine sleeps on without a lock")
			}
		}
	})
}

// Setting a timer to an earlier time wakes a thread, which costs more than the
// rest of a hand-off.
func TestShortTenuresDoNotHurryTheScheduler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := testLocker(t, newMemory(), newSkewed(), &Options{TTL: 600 * time.Millisecond})
		s, hurries := &l.scheduler, 0
		for range 1000 {
			s.Lock()
			before := s.wake
			s.Unlock()
			k := mustAcquire(t, l, "r")
			s.Lock()
			if s.wake < before || before < s.now().mono {
				hurries++
			}
			s.Unlock()
			pass(2 * time.Millisecond)
			if err := k.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			pass(11 * time.Millisecond)
		}
		if hurries > 5 {
			t.Errorf("the timer was hurried by %d of 1000 tenures", hurries)
		}
		pass(4 * time.Second)
		synctest.Wait()
		s.Lock()
		defer s.Unlock()
		if s.running {
			t.Error("the goroutine does not end")
		}
	})
}

func TestReleasesRacingTheFirstRenewalLeaveNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: 300 * time.Millisecond})
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				k := mustAcquire(t, l, fmt.Sprint("r", i))
				pass(90*time.Millisecond + time.Duration(i)*20*time.Microsecond)
				if err := k.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		renewals := m.count(opRenew)
		pass(time.Minute)
		if m.live() != 0 || m.count(opRenew) != renewals {
			t.Errorf("%d locks left, %d renewals after the releases", m.live(), m.count(opRenew)-renewals)
		}
	})
}

func TestRenewConfirmsTheLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl})
		k := mustAcquire(t, l, "r")
		pass(ttl / 4)
		if err := k.Renew(t.Context()); err != nil || k.Remaining() != ttl-margin(ttl) {
			t.Errorf("Renew: %v, Remaining %v", err, k.Remaining())
		}
		ctx, cancel := context.WithTimeout(t.Context(), ttl/15)
		defer cancel()
		m.fault(func(ctx context.Context, _ *call) error { return hang(ctx) })
		start := time.Now()
		if err := k.Renew(ctx); !errors.Is(err, ErrUnavailable) || time.Since(start) > ttl/15 {
			t.Errorf("Renew of a stuck Redis: %v after %v", err, time.Since(start))
		}
		if k.Err() != nil {
			t.Errorf("one failed renewal ended the lock: %v", k.Err())
		}
		m.fault(nil)
		m.wipe()
		if err := k.Renew(t.Context()); lostReason(t, err) != Expired {
			t.Errorf("Renew of an absent key: %v", err)
		}
		if m.live() != 0 {
			t.Error("Renew created the key again")
		}
	})
}

func TestContextCarriesTheFenceAndEndsWithTheLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := testLocker(t, newMemory(), newSkewed(), &Options{TTL: ttl})
		k := mustAcquire(t, l, "r")
		stop := errors.New("stop")
		parent, cancelParent := context.WithCancelCause(t.Context())
		child, cancel := k.Context(parent)
		defer cancel()
		other, cancelOther := k.Context(t.Context())
		freed, free := k.Context(t.Context())
		free()
		if f, err := fencedstore.FromContext(child); err != nil || f != k.Fence() {
			t.Errorf("fence %v, %v", f, err)
		}
		if left, known := fencedstore.Remaining(child); !known || left != k.Remaining() {
			t.Errorf("remaining %v, %v", left, known)
		}
		cancelParent(stop)
		if !errors.Is(context.Cause(child), stop) || k.Err() != nil || other.Err() != nil {
			t.Errorf("parent's end: cause %v, lock %v, other context %v", context.Cause(child), k.Err(), other.Err())
		}
		if len(k.contexts) != 2 || !errors.Is(freed.Err(), context.Canceled) {
			t.Errorf("%d contexts kept after one was cancelled", len(k.contexts))
		}
		done := k.Done()
		if err := k.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-done
		if !errors.Is(context.Cause(other), ErrReleased) || !errors.Is(k.Err(), ErrReleased) {
			t.Errorf("after Release: cause %v, Err %v", context.Cause(other), k.Err())
		}
		cancelOther()
		late, cancelLate := k.Context(t.Context())
		defer cancelLate()
		if !errors.Is(context.Cause(late), ErrReleased) {
			t.Errorf("context of a released lock: %v", context.Cause(late))
		}
	})
}
