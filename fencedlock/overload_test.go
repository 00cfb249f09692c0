package fencedlock

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// slowTrips is a memory to which a round trip of several questions takes long.
type slowTrips struct {
	*memory
	trip time.Duration
}

func (b slowTrips) batch(ctx context.Context, cs []*call) {
	pass(b.trip)
	b.memory.batch(ctx, cs)
}

// TestOverloadRenewsWhoIsClosestToItsEnd wants far more renewals than fit: of ten
// thousand locks each is to be renewed twice a second, and there is time for one
// renewal in three seconds and a half. It counts goroutines, so no other test runs
// beside it.
func TestOverloadRenewsWhoIsClosestToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, lease = 10_000, 10 * time.Second
		b := slowTrips{newMemory(), 700 * time.Millisecond}
		o, err := (&Options{TTL: lease, RenewEvery: 500 * time.Millisecond}).complete()
		if err != nil {
			t.Fatal(err)
		}
		l := newLocker(b, o, newClock())
		before := runtime.NumGoroutine()
		locks := make([]*Lock, n)
		for i := range locks {
			locks[i] = mustAcquire(t, l, fmt.Sprint("r", i))
		}
		const length = time.Minute
		least, most := lease, 0
		for range length / time.Second {
			pass(time.Second)
			most = max(most, runtime.NumGoroutine()-before)
			for _, k := range locks {
				least = min(least, k.Remaining())
			}
		}
		if least < lease/3 {
			t.Errorf("the least of the leases has %v left, want a third of %v", least, lease)
		}
		trips, room := b.roundTrips(), int(length/b.trip)*maxSenders
		if got := b.count(opRenew); trips < room*9/10 || got < trips*maxBatch*9/10 {
			t.Errorf("%d renewals in %d round trips, there was time for %d", got, trips, room)
		}
		if most > 2*maxSenders+5 {
			t.Errorf("%d goroutines more", most)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestWaitForASenderEndsWithTheLease has locks wait for a sender that never comes.
func TestWaitForASenderEndsWithTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl})
		l.scheduler.Lock()
		l.scheduler.senders = maxSenders
		l.scheduler.Unlock()
		k, released := mustAcquire(t, l, "r"), mustAcquire(t, l, "released")
		start := time.Now()
		pass(ttl / 2)
		if err := released.Release(t.Context()); err != nil {
			t.Error(err)
		}
		<-k.Done()
		if got, want := time.Since(start), ttl-margin(ttl); got != want || lostReason(t, k.Err()) != Expired {
			t.Errorf("%v after %v, want %v", k.Err(), got, want)
		}
		l.scheduler.Lock()
		defer l.scheduler.Unlock()
		if n := l.scheduler.watched.Len() + l.scheduler.ready.Len(); n > 0 {
			t.Errorf("%d places left", n)
		}
		l.scheduler.senders = 0
	})
}
