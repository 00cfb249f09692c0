package fencedlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/internal/testenv"
)

// TestThousandsOfLocksAreHeldUnderLoad is not parallel: it counts goroutines. It
// holds the locks for a few seconds, or for FENCED_TEST_SOAK, and wants them to be
// renewed more often than a busy machine can.
func TestThousandsOfLocksAreHeldUnderLoad(t *testing.T) {
	const n = 10_000
	hold := holdFor(t)
	srv := testenv.NewRedis(t)
	var lost, renewed atomic.Int64
	l := locker(t, client(t, srv.DirectAddr()), &fencedlock.Options{TTL: 20 * time.Second, RenewEvery: 250 * time.Millisecond, Hooks: &fencedlock.Hooks{
		Lost:    func(context.Context, *fencedlock.LostError) { lost.Add(1) },
		Renewed: func(context.Context, fencedstore.Fence, time.Duration) { renewed.Add(1) },
	}})
	before := runtime.NumGoroutine()
	locks := acquireMany(t, l, n)
	stop := burn()
	most, began := 0, time.Now()
	testenv.Eventually(t, hold+patience, "the time has passed", func() bool {
		most = max(most, runtime.NumGoroutine())
		return time.Since(began) > hold
	})
	stop()
	t.Logf("%d renewals in %v", renewed.Load(), time.Since(began))
	// The scheduler, senders and connections; not n.
	if most > before+200 {
		t.Errorf("%d goroutines, %d before", most, before)
	}
	if renewed.Load() < n/2 {
		t.Errorf("only %d renewals", renewed.Load())
	}
	if lost.Load() > 0 {
		t.Errorf("%d locks lost", lost.Load())
	}
	for _, k := range locks {
		if err := k.Err(); err != nil {
			t.Fatal(err)
		}
	}
	if held := srv.Do(t, "EVAL", "return #redis.call('KEYS', '*:lock')", "0"); held != int64(n) {
		t.Errorf("Redis has %v locks", held)
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func holdFor(t *testing.T) time.Duration {
	t.Helper()
	soak := os.Getenv("FENCED_TEST_SOAK")
	if soak == "" {
		return 3 * time.Second
	}
	d, err := time.ParseDuration(soak)
	if err != nil {
		t.Fatalf("FENCED_TEST_SOAK: %v", err)
	}
	return d
}

// acquireMany acquires r0 to r<n-1>, some at a time.
func acquireMany(t *testing.T, l *fencedlock.Locker, n int) []*fencedlock.Lock {
	t.Helper()
	locks, errs := make([]*fencedlock.Lock, n), make([]error, n)
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 32 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				locks[i], errs[i] = l.Acquire(t.Context(), fmt.Sprint("r", i), nil)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return locks
}

// burn uses every processor until it is stopped.
func burn() (stop func()) {
	var wg sync.WaitGroup
	var end atomic.Bool
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for !end.Load() { // spins
			}
		})
	}
	return func() {
		end.Store(true)
		wg.Wait()
	}
}
