package fencedlock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

func TestDoHoldsTheLockUntilTheFunctionReturns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl})
		ctx, cancel := context.WithCancel(t.Context())
		err := l.Do(ctx, "r", nil, func(ctx context.Context, f fencedstore.Fence) error {
			if got, err := fencedstore.FromContext(ctx); err != nil || got != f {
				t.Errorf("context carries %v, %v", got, err)
			}
			cancel()
			<-ctx.Done()
			pass(5 * ttl) // shutting down takes a while
			if m.live() != 1 {
				t.Error("the lock was given up while the work went on")
			}
			return nil
		})
		if err != nil || m.live() != 0 {
			t.Errorf("Do: %v, %d locks left", err, m.live())
		}
	})
}

func TestDoReportsALockLostUnderTheFunction(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	for name, result := range map[string]error{"nil": nil, "error": failed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				l := testLocker(t, m, newSkewed(), &Options{TTL: 900 * time.Millisecond})
				start := time.Now()
				var noticed time.Duration
				err := l.Do(t.Context(), "r", nil, func(ctx context.Context, _ fencedstore.Fence) error {
					m.fault(func(ctx context.Context, _ *call) error { return hang(ctx) })
					<-ctx.Done()
					noticed = time.Since(start)
					pass(time.Second) // does not listen
					m.fault(nil)
					return result
				})
				if lostReason(t, err) != RenewFailed || result != nil && !errors.Is(err, result) {
					t.Errorf("Do: %v", err)
				}
				if want := 900*time.Millisecond - margin(900*time.Millisecond); noticed > want {
					t.Errorf("noticed after %v, want %v", noticed, want)
				}
			})
		})
	}
}

func TestDoDoesNotRepeatTheLossThatTheFunctionReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl})
		var lost error
		err := l.Do(t.Context(), "r", nil, func(ctx context.Context, _ fencedstore.Fence) error {
			m.wipe()
			<-ctx.Done()
			lost = fmt.Errorf("stopped: %w", context.Cause(ctx))
			return lost
		})
		if !errors.Is(err, lost) || err.Error() != lost.Error() {
			t.Errorf("got %v, want %v", err, lost)
		}
	})
}

func TestDoReleasesAfterPanicAndGoexit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), nil)
		for name, leave := range map[string]func(){
			"panic":  func() { panic("boom") },
			"goexit": runtime.Goexit,
		} {
			var wg sync.WaitGroup
			var recovered any
			wg.Go(func() {
				defer func() { recovered = recover() }()
				_ = l.Do(t.Context(), "r", nil, func(context.Context, fencedstore.Fence) error {
					leave()
					return nil
				})
			})
			wg.Wait()
			if m.live() != 0 || name == "panic" && recovered != "boom" {
				t.Errorf("%s: %d locks left, recovered %v", name, m.live(), recovered)
			}
		}
	})
}

func TestDoCallsNothingWithoutALock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		refuse := &claims{claim: func(context.Context, fencedstore.Fence) error { return errors.New("no") }}
		l := testLocker(t, m, newSkewed(), nil)
		fn := func(context.Context, fencedstore.Fence) error {
			t.Error("fn was called")
			return nil
		}
		if err := l.Do(t.Context(), "r", &AcquireOptions{Stores: []fencedstore.Claimer{refuse}}, fn); err == nil {
			t.Error("a refused claim is no error")
		}
		m.fault(func(ctx context.Context, _ *call) error { return hang(ctx) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Do(ctx, "r", nil, fn); !errors.Is(err, ErrUnavailable) {
			t.Errorf("stuck Redis: %v", err)
		}
	})
}
