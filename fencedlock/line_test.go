package fencedlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

// TestTurnsOfOneProcessArePassedInMemory has eight processes with eight waiters
// each take the lock once.
func TestTurnsOfOneProcessArePassedInMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := &claims{claim: func(context.Context, fencedstore.Fence) error { return nil }}
		first := mustAcquire(t, testLocker(t, m, newSkewed(), nil), "r")
		var mu sync.Mutex
		var order []*Locker
		last := first.Fence().ID
		holders := map[string]bool{}
		var wg sync.WaitGroup
		inside := 0
		for range 8 {
			l := testLocker(t, m, newSkewed(), &Options{Stores: []fencedstore.Claimer{s}})
			for range 8 {
				wg.Go(func() {
					k := mustAcquire(t, l, "r")
					ctx, cancel := k.Context(t.Context())
					defer cancel()
					mu.Lock()
					if inside++; inside != 1 || k.Fence().ID <= last || holders[k.Fence().Holder] {
						t.Errorf("%d inside, fence %v after %d", inside, k.Fence(), last)
					}
					last = k.Fence().ID
					holders[k.Fence().Holder] = true
					order = append(order, l)
					mu.Unlock()
					pass(time.Millisecond)
					mu.Lock()
					inside--
					mu.Unlock()
					if k.Err() != nil || ctx.Err() != nil {
						t.Errorf("lost: %v", k.Err())
					}
					if err := k.Release(t.Context()); err != nil || !errors.Is(context.Cause(ctx), ErrReleased) {
						t.Errorf("Release: %v, cause %v", err, context.Cause(ctx))
					}
				})
			}
			synctest.Wait()
		}
		if m.queued() != 8 {
			t.Errorf("%d in the queue, want one of each Locker", m.queued())
		}
		m.forgetAsked()
		if err := first.Release(t.Context()); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if n := m.count(opAcquire) + m.count(opRelease) + m.count(opRenew); n > 32 {
			t.Errorf("%d questions for 64 turns", n)
		}
		for i := range order {
			if order[i] != order[i/8*8] {
				t.Fatalf("turn %d went to another process", i)
			}
		}
		if len(s.claimed()) != 64 || m.live() != 0 || m.queued() != 0 {
			t.Errorf("%d claims, %d locks and %d waiters left", len(s.claimed()), m.live(), m.queued())
		}
	})
}

func TestProcessHasAtMostEightTurnsInARow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		turns := map[*Locker]int{}
		var mu sync.Mutex
		var last *Locker
		row, most := 0, 0
		var wg sync.WaitGroup
		for i := range 3 {
			l := testLocker(t, m, newSkewed(), nil)
			for range []int{1, 5, 30}[i] {
				wg.Go(func() {
					for {
						k, err := l.Acquire(ctx, "r", nil)
						if err != nil {
							return
						}
						mu.Lock()
						turns[l]++
						if row++; last != l {
							row = 1
						}
						last, most = l, max(most, row)
						mu.Unlock()
						pass(time.Millisecond)
						if err := k.Release(t.Context()); err != nil { //nolint:contextcheck // the test's own context
							t.Errorf("Release: %v", err)
						}
					}
				})
			}
		}
		wg.Wait()
		// The first is taken without a queue, and may be followed by a block.
		if most > 1+8 || len(turns) != 3 {
			t.Errorf("%d turns in a row, %d Lockers were served", most, len(turns))
		}
		for _, n := range turns {
			if n < 100 {
				t.Errorf("a Locker had %d turns", n)
			}
		}
		if m.live() != 0 || m.queued() != 0 {
			t.Errorf("%d locks and %d waiters left", m.live(), m.queued())
		}
	})
}

func TestLongWorkDoesNotKeepTheOthersOutOfTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		first := mustAcquire(t, testLocker(t, m, newSkewed(), nil), "r")
		l := testLocker(t, m, newSkewed(), nil)
		got, other := make(chan *Lock, 2), make(chan *Lock, 1)
		queueUp(t, l, t.Context(), got)
		queueUp(t, l, t.Context(), got)
		if err := first.Release(t.Context()); err != nil {
			t.Error(err)
		}
		k := <-got
		pass(time.Minute) // the second has queued by then
		queueUp(t, testLocker(t, m, newSkewed(), nil), t.Context(), other)
		if m.queued() != 2 {
			t.Errorf("%d in the queue", m.queued())
		}
		if err := k.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if k = <-got; k.Release(t.Context()) != nil {
			t.Error("the second was not served in its order")
		}
		if k = <-other; k.Release(t.Context()) != nil {
			t.Error("not released")
		}
	})
}

// TestCancelsLeaveNothing cancels a thousand waits at random.
func TestCancelsLeaveNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		seed := uint64(time.Now().UnixNano())
		rnd := rand.New(rand.NewPCG(seed, 2))
		var served, cancelled int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 4 {
			l := testLocker(t, m, newSkewed(), nil)
			for range 5 {
				waits := make([]time.Duration, 60)
				for i := range waits {
					waits[i] = time.Duration(rnd.IntN(60_000)) * time.Microsecond
				}
				wg.Go(func() {
					for _, d := range waits {
						ctx, cancel := context.WithTimeout(t.Context(), d)
						k, err := l.Acquire(ctx, "r", nil)
						mu.Lock()
						if err != nil {
							cancelled++
						} else {
							served++
						}
						mu.Unlock()
						if err == nil {
							pass(2 * time.Millisecond)
							if err := k.Release(t.Context()); err != nil {
								t.Errorf("Release: %v", err)
							}
						} else if !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("Acquire: %v", err)
						}
						cancel()
					}
				})
			}
		}
		wg.Wait()
		synctest.Wait()
		if served < 100 || cancelled < 100 || m.live() != 0 || m.queued() != 0 {
			t.Errorf("%d served, %d cancelled; %d locks and %d waiters left", served, cancelled, m.live(), m.queued())
		}
		start := time.Now()
		if k := mustAcquire(t, testLocker(t, m, newSkewed(), nil), "r"); time.Since(start) != 0 || k.Release(t.Context()) != nil {
			t.Errorf("the next waited for %v", time.Since(start))
		}
	})
}

func TestProcessThatDiesInItsBlockCostsAFirstLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		first := mustAcquire(t, testLocker(t, m, newSkewed(), nil), "r")
		dies := testLocker(t, m, newSkewed(), nil)
		got, next := make(chan *Lock, 3), make(chan *Lock, 1)
		for range 3 {
			queueUp(t, dies, t.Context(), got)
		}
		queueUp(t, testLocker(t, m, newSkewed(), nil), t.Context(), next)
		if err := first.Release(t.Context()); err != nil {
			t.Error(err)
		}
		k := <-got
		if err := k.Release(t.Context()); err != nil {
			t.Error(err)
		}
		k = <-got
		dies.scheduler.Lock()
		dies.scheduler.forget(k) // as if the process had been killed
		dies.scheduler.Unlock()
		start := time.Now()
		if n := <-next; n.Fence().ID <= k.Fence().ID || time.Since(start) > firstLease+firstPoll {
			t.Errorf("fence %d after %d, after %v", n.Fence().ID, k.Fence().ID, time.Since(start))
		}
	})
}
