package fencedlock_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/internal/testenv"
)

// TestThousandsOfLocksAreHeldUnderLoad is not parallel: it counts goroutines. It
// holds the locks for a few seconds, or for FENCED_TEST_SOAK.
func TestThousandsOfLocksAreHeldUnderLoad(t *testing.T) {
	const n = 10_000
	hold := 3 * time.Second
	if soak := os.Getenv("FENCED_TEST_SOAK"); soak != "" {
		d, err := time.ParseDuration(soak)
		if err != nil {
			t.Fatalf("FENCED_TEST_SOAK: %v", err)
		}
		hold = d
	}
	srv := testenv.NewRedis(t)
	var lost atomic.Int64
	l := locker(t, client(t, srv.Addr()), &fencedlock.Options{TTL: 30 * time.Second, RenewEvery: 2 * time.Second, Hooks: &fencedlock.Hooks{
		Lost: func(context.Context, *fencedlock.LostError) { lost.Add(1) },
	}})
	before := runtime.NumGoroutine()
	locks := make([]*fencedlock.Lock, n)
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 32 {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < n; i = next.Add(1) - 1 {
				k, err := l.Acquire(t.Context(), fmt.Sprint("r", i), nil)
				if err != nil {
					t.Error(err)
					return
				}
				locks[i] = k
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	stop := make(chan struct{})
	for range runtime.GOMAXPROCS(0) { // something else uses every processor
		wg.Go(func() {
			for x := uint64(1); ; x = x*6364136223846793005 + 1442695040888963407 {
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	most, began := 0, time.Now()
	testenv.Eventually(t, hold+patience, "the time has passed", func() bool {
		most = max(most, runtime.NumGoroutine())
		return time.Since(began) > hold
	})
	close(stop)
	wg.Wait()
	// The scheduler, senders, connections and both ends of the proxy; not n.
	if most > before+200 {
		t.Errorf("%d goroutines, %d before", most, before)
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
