package fencedlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

func TestHooksSeeTheLifeOfALock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		seen := map[string]int{}
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			seen[what]++
		}
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl, Hooks: &Hooks{
			Acquired: func(f fencedstore.Fence, waited time.Duration) {
				if f.Validate() != nil || waited != 0 {
					t.Errorf("acquired %v after %v", f, waited)
				}
				note("acquired")
			},
			Released: func(_ fencedstore.Fence, held time.Duration) {
				if held != 2*ttl {
					t.Errorf("held for %v", held)
				}
				note("released")
			},
			Lost:        func(err *LostError) { note("lost " + err.Reason.String()) },
			Renewed:     func(fencedstore.Fence) { note("renewed") },
			RenewFailed: func(_ fencedstore.Fence, err error) { note("failed " + err.Error()) },
		}})
		k := mustAcquire(t, l, "r")
		pass(2 * ttl)
		if err := k.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		k = mustAcquire(t, l, "r")
		m.fault(func(_ context.Context, c *call) error {
			if c.op == opRenew {
				return errDown
			}
			return nil
		})
		<-k.Done()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if seen["acquired"] != 2 || seen["released"] != 1 || seen["renewed"] < 5 || seen["lost renewal failed"] != 1 || seen["failed connection refused"] < 3 {
			t.Errorf("saw %v", seen)
		}
	})
}

func TestSlowHookDelaysNoLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl, Hooks: &Hooks{
			Lost:    func(*LostError) { pass(time.Minute) },
			Renewed: func(fencedstore.Fence) { pass(time.Second) },
		}})
		kept, taken := mustAcquire(t, l, "kept"), mustAcquire(t, l, "taken")
		m.steal("taken")
		start := time.Now()
		<-taken.Done()
		if waited := time.Since(start); waited > ttl/2 {
			t.Errorf("the loss took %v", waited)
		}
		pass(10 * ttl)
		if kept.Err() != nil {
			t.Errorf("a slow hook ended a lock: %v", kept.Err())
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		pass(time.Hour) // until the hooks have returned
	})
}

func TestHolderIsInNoTextOrLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		k := mustAcquire(t, l, "r")
		_, held := l.TryAcquire(t.Context(), "r", nil)
		m.fault(func(context.Context, *call) error { return errDown })
		released := k.Release(t.Context())
		m.fault(nil)
		k2 := mustAcquire(t, l, "r2")
		m.steal("r2")
		<-k2.Done()
		for _, err := range []error{held, released, k2.Err()} {
			for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err), log.String()} {
				for _, holder := range []string{k.Fence().Holder, k2.Fence().Holder} {
					if strings.Contains(text, holder) {
						t.Errorf("%q has the holder", text)
					}
				}
			}
		}
	})
}

func TestOrphanThatCannotBeReleasedIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		m.after = func(context.Context, *call) error { return &faultError{err: errors.New("reset"), ran: true} }
		m.fault(func(_ context.Context, c *call) error {
			if c.op == opRelease {
				return errDown
			}
			return nil
		})
		if _, err := l.TryAcquire(t.Context(), "r", nil); !errors.Is(err, fencedstore.ErrUnknownOutcome) {
			t.Errorf("TryAcquire: %v", err)
		}
		pass(2 * ttl)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(log.String(), "resource=r") {
			t.Errorf("log %q", log.String())
		}
	})
}

func TestAcquireThatArrivesAfterItsReleaseIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		var late []call
		m.fault(func(_ context.Context, c *call) error {
			if c.op == opAcquire { // on its way, and overtaken
				late = append(late, *c)
				return &faultError{err: errors.New("i/o timeout"), ran: true}
			}
			return nil
		})
		l := testLocker(t, m, newSkewed(), &Options{TTL: time.Hour})
		_, err := l.TryAcquire(t.Context(), "r", nil)
		if !errors.Is(err, ErrUnavailable) || errors.Is(err, fencedstore.ErrUnknownOutcome) {
			t.Errorf("TryAcquire: %v", err)
		}
		m.fault(nil)
		for i := range late {
			m.do(t.Context(), &late[i])
		}
		if m.live() != 1 {
			t.Fatal("the late acquire took nothing; the test shows nothing")
		}
		pass(2 * secondLook)
		if m.live() != 0 {
			t.Error("the late acquire locks the resource")
		}
	})
}
