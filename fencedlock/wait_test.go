package fencedlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

// queueUp starts a waiter and returns when it is in the queue.
func queueUp(t *testing.T, l *Locker, ctx context.Context, got chan<- *Lock) { //nolint:revive // t comes first in tests
	t.Helper()
	go func() {
		k, err := l.Acquire(ctx, "r", nil)
		if err != nil {
			k = nil
			if ctx.Err() == nil {
				t.Errorf("Acquire: %v", err)
			}
		}
		got <- k
	}()
	synctest.Wait()
}

// forgetAsked begins to count questions anew.
func (m *memory) forgetAsked() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.asked)
}

func (m *memory) queued() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.shelf.queues[newKeys(DefaultPrefix, "r").queue])
}

func TestWaitersAreServedInTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		first := mustAcquire(t, testLocker(t, m, newSkewed(), nil), "r")
		var lockers []*Locker
		var order []chan *Lock
		for range 10 {
			l := testLocker(t, m, newSkewed(), nil)
			c := make(chan *Lock, 1)
			queueUp(t, l, t.Context(), c)
			lockers, order = append(lockers, l), append(order, c)
		}
		pass(time.Minute)
		if m.queued() != 10 {
			t.Errorf("%d in the queue", m.queued())
		}
		last := first
		for i, c := range order {
			start, asked := time.Now(), m.count(opAcquire)
			if err := last.Release(t.Context()); err != nil {
				t.Error(err)
			}
			k := <-c
			if k == nil || k.l != lockers[i] || k.Fence().ID <= last.Fence().ID || time.Since(start) != 0 {
				t.Fatalf("waiter %d: %v after %v", i, k, time.Since(start))
			}
			if n := m.count(opAcquire) - asked; n > 1 {
				t.Errorf("waiter %d asked %d times after it was woken", i, n)
			}
			last = k
		}
		if err := last.Release(t.Context()); err != nil || m.live() != 0 {
			t.Errorf("%v, %d locks left", err, m.live())
		}
	})
}

func TestTryAcquireDoesNotOvertake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		dead, waits, tries := testLocker(t, m, newSkewed(), &Options{TTL: ttl}), testLocker(t, m, newSkewed(), nil), testLocker(t, m, newSkewed(), nil)
		k := mustAcquire(t, dead, "r")
		got := make(chan *Lock, 1)
		queueUp(t, waits, t.Context(), got)
		m.mu.Lock()
		delete(m.shelf.locks, k.ask.keys.lock) // the lease ends; nobody has noticed
		m.mu.Unlock()
		if _, err := tries.TryAcquire(t.Context(), "r", nil); !errors.Is(err, ErrHeld) {
			t.Errorf("TryAcquire: %v", err)
		}
		start := time.Now()
		if next := <-got; next == nil || time.Since(start) != 0 {
			t.Errorf("the waiter got %v after %v", next, time.Since(start))
		}
		if m.queued() != 0 {
			t.Error("TryAcquire queued")
		}
	})
}

// TestShortWorkAfterAWaitIsTwoQuestions has one waiter at a time: it queues,
// works for an instant and releases.
func TestShortWorkAfterAWaitIsTwoQuestions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		last := mustAcquire(t, testLocker(t, m, newSkewed(), nil), "r")
		lockers := []*Locker{testLocker(t, m, newSkewed(), nil), testLocker(t, m, newSkewed(), nil)}
		got := make(chan *Lock, 1)
		queueUp(t, lockers[0], t.Context(), got)
		for i := range 20 {
			if err := last.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			last = <-got
			if i == 10 {
				m.forgetAsked() // both Lockers listen now
			}
			pass(time.Millisecond)
			queueUp(t, lockers[(i+1)%2], t.Context(), got)
		}
		if n := m.count(opAcquire) + m.count(opRelease) + m.count(opRenew); n > 2*9+1 {
			t.Errorf("%d questions for 9 turns", n)
		}
		if err := last.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if k := <-got; k.Release(t.Context()) != nil {
			t.Error("the last was not released")
		}
	})
}

func TestFirstLeaseIsExtendedByWorkThatLasts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		first := mustAcquire(t, testLocker(t, m, newSkewed(), nil), "r")
		got := make(chan *Lock, 1)
		queueUp(t, testLocker(t, m, newSkewed(), &Options{TTL: 10 * time.Second}), t.Context(), got)
		if err := first.Release(t.Context()); err != nil {
			t.Error(err)
		}
		k := <-got
		if left := k.Remaining(); left > firstLease || left < firstLease/2 {
			t.Errorf("%v left of the first lease", left)
		}
		pass(firstLease / 2)
		if left := k.Remaining(); left < 9*time.Second || m.count(opRenew) != 1 {
			t.Errorf("%v left after %d renewals", left, m.count(opRenew))
		}
		pass(time.Minute)
		if k.Err() != nil {
			t.Error(k.Err())
		}
	})
}

// TestLeaseAfterAWaitNeverEndsLaterThanRedisSays compares what the waiter
// believes with what the service knows, at any distance between the last
// question and the grant.
func TestLeaseAfterAWaitNeverEndsLaterThanRedisSays(t *testing.T) {
	t.Parallel()
	for wait := time.Millisecond; wait < 3*time.Second; wait += 37 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			m.after = func(context.Context, *call) error { pass(3 * time.Millisecond); return nil }
			first := mustAcquire(t, testLocker(t, m, newSkewed(), nil), "r")
			got := make(chan *Lock, 1)
			queueUp(t, testLocker(t, m, newSkewed(), nil), t.Context(), got)
			pass(wait)
			if err := first.Release(t.Context()); err != nil {
				t.Error(err)
			}
			k := <-got
			m.mu.Lock()
			end := m.shelf.locks[k.ask.keys.lock].until
			m.mu.Unlock()
			if believed := time.Duration(time.Now().Add(k.Remaining()).UnixNano()); believed > end || k.Remaining() < firstLease/3 {
				t.Errorf("after a wait of %v: believed until %v, ends %v", wait, believed, end)
			}
		})
	}
}

func TestStoresFindTheFullLeaseAfterAWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		first := mustAcquire(t, testLocker(t, m, newSkewed(), nil), "r")
		s := &claims{claim: func(ctx context.Context, _ fencedstore.Fence) error {
			if left, _ := fencedstore.Remaining(ctx); left < ttl/2 {
				t.Errorf("a store was told of %v", left)
			}
			return nil
		}}
		got := make(chan *Lock, 1)
		queueUp(t, testLocker(t, m, newSkewed(), &Options{TTL: 10 * time.Second, Stores: []fencedstore.Claimer{s}}), t.Context(), got)
		if err := first.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if k := <-got; k.Remaining() < 9*time.Second || len(s.claimed()) != 1 {
			t.Errorf("%v left, claimed %v", k.Remaining(), s.claimed())
		}
	})
}

func TestLostWakeUpCostsLessThanAFirstLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.drop.Store(true)
		k := mustAcquire(t, testLocker(t, m, newSkewed(), nil), "r")
		got := make(chan *Lock, 1)
		for range 20 {
			queueUp(t, testLocker(t, m, newSkewed(), nil), t.Context(), got)
			pass(time.Millisecond)
			start := time.Now()
			if err := k.Release(t.Context()); err != nil {
				t.Error(err)
			}
			if k = <-got; time.Since(start) > 2*firstPoll {
				t.Errorf("the waiter noticed after %v", time.Since(start))
			}
		}
	})
}

func TestWaiterThatNobodyCanTellAsks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.mute = true
		k := mustAcquire(t, testLocker(t, m, newSkewed(), nil), "r")
		got := make(chan *Lock, 1)
		queueUp(t, testLocker(t, m, newSkewed(), nil), t.Context(), got)
		pass(10 * time.Second)
		if m.queued() != 1 || m.count(opAcquire) < 20 {
			t.Errorf("%d in the queue, asked %d times", m.queued(), m.count(opAcquire))
		}
		start := time.Now()
		if err := k.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if k := <-got; k == nil || time.Since(start) > firstLease {
			t.Errorf("%v after %v", k, time.Since(start))
		}
	})
}

func TestFrozenWaiterAheadCostsOneFirstLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		k := mustAcquire(t, testLocker(t, m, newSkewed(), nil), "r")
		c := &call{ // of a process that is stopped: it has a channel and does not read it
			op: opAcquire, keys: k.ask.keys, holder: "frozen", waits: true, waker: "!frozen", ttl: time.Hour.Milliseconds(),
		}
		m.mu.Lock()
		m.shelf.ears[DefaultPrefix+"wake:frozen"] = make(chan string, 10)
		m.mu.Unlock()
		m.do(t.Context(), c)
		got := make(chan *Lock, 1)
		queueUp(t, testLocker(t, m, newSkewed(), nil), t.Context(), got)
		pass(time.Minute)
		start := time.Now()
		if err := k.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if k := <-got; k == nil || time.Since(start) > firstLease+firstLease/2 {
			t.Errorf("%v after %v", k, time.Since(start))
		}
	})
}

func TestDeadWaiterAheadCostsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		k := mustAcquire(t, testLocker(t, m, newSkewed(), nil), "r")
		for i := range 5 {
			m.do(t.Context(), &call{
				op: opAcquire, keys: k.ask.keys, holder: fmt.Sprint("dead", i), waits: true, waker: "!dead", ttl: 1e6,
			})
		}
		got := make(chan *Lock, 1)
		queueUp(t, testLocker(t, m, newSkewed(), nil), t.Context(), got)
		start := time.Now()
		if err := k.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if k := <-got; k == nil || time.Since(start) != 0 {
			t.Errorf("%v after %v", k, time.Since(start))
		}
	})
}

func TestWaiterThatGivesUpLeavesTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		k := mustAcquire(t, testLocker(t, m, newSkewed(), nil), "r")
		l := testLocker(t, m, newSkewed(), nil)
		ctx, cancel := context.WithCancel(t.Context())
		gone, got := make(chan *Lock, 1), make(chan *Lock, 1)
		queueUp(t, l, ctx, gone)
		queueUp(t, l, t.Context(), got)
		cancel()
		if <-gone != nil {
			t.Error("a cancelled waiter got the lock")
		}
		synctest.Wait()
		if err := k.Release(t.Context()); err != nil {
			t.Error(err)
		}
		start := time.Now()
		if k := <-got; k == nil || time.Since(start) != 0 {
			t.Errorf("%v after %v", k, time.Since(start))
		}
	})
}

func TestGrantToAWaiterThatGivesUpIsPassedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		k := mustAcquire(t, testLocker(t, m, newSkewed(), nil), "r")
		ctx, cancel := context.WithCancel(t.Context())
		gone, got := make(chan *Lock, 1), make(chan *Lock, 1)
		leaver := testLocker(t, m, newSkewed(), nil)
		queueUp(t, leaver, ctx, gone)
		queueUp(t, testLocker(t, m, newSkewed(), nil), t.Context(), got)
		m.drop.Store(true) // it does not hear of it
		if err := k.Release(t.Context()); err != nil {
			t.Error(err)
		}
		cancel()
		<-gone
		m.drop.Store(false)
		start := time.Now()
		if k := <-got; k == nil || time.Since(start) > 2*firstPoll {
			t.Errorf("%v after %v", k.Fence(), time.Since(start))
		}
	})
}

func TestCloseEndsWaitsAndLeavesTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		mustAcquire(t, testLocker(t, m, newSkewed(), nil), "r")
		l := testLocker(t, m, newSkewed(), nil)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if _, err := l.Acquire(t.Context(), "r", nil); !errors.Is(err, ErrClosed) {
					t.Errorf("Acquire: %v", err)
				}
			})
		}
		synctest.Wait()
		if m.queued() == 0 {
			t.Error("nobody queued")
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if m.queued() != 0 {
			t.Errorf("%d in the queue", m.queued())
		}
	})
}

func TestListeningEndsAWhileAfterTheLastWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		k := mustAcquire(t, testLocker(t, m, newSkewed(), nil), "r")
		got := make(chan *Lock, 1)
		l := testLocker(t, m, newSkewed(), nil)
		queueUp(t, l, t.Context(), got)
		pass(2 * earIdle)
		if !l.ear.hears() {
			t.Error("it does not listen while it waits")
		}
		if err := k.Release(t.Context()); err != nil {
			t.Error(err)
		}
		k = <-got
		pass(earIdle + 2*quiet)
		m.mu.Lock()
		ears := len(m.shelf.ears)
		m.mu.Unlock()
		if l.ear.hears() || ears != 0 {
			t.Error("it listens without waiters")
		}
		queueUp(t, l, t.Context(), got)
		if err := k.Release(t.Context()); err != nil {
			t.Error(err)
		}
		start := time.Now()
		if k := <-got; k == nil || time.Since(start) != 0 {
			t.Errorf("later: %v after %v", k, time.Since(start))
		}
	})
}

func TestUnfairWaitersNeverQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{Unfair: true})
		k := mustAcquire(t, l, "r")
		got := make(chan *Lock, 1)
		queueUp(t, l, t.Context(), got)
		pass(10 * time.Second)
		if m.queued() != 0 || l.ear.hears() || m.count(opAcquire) < 20 {
			t.Errorf("%d in the queue, asked %d times", m.queued(), m.count(opAcquire))
		}
		if err := k.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if k := <-got; k.Release(t.Context()) != nil {
			t.Error("not released")
		}
	})
}
