package fencedlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestACallerIsNotOvertakenByWhatItReservedItself has a waiter, which reserves
// fences for those behind it, propose to nodes whose counters lead all clocks and
// differ by less than that. What one node has reserved for it is ahead of what
// the other one has told it.
func TestACallerIsNotOvertakenByWhatItReservedItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const high = 1 << 60
		nodes := fakeQuorum(3)
		first := mustAcquire(t, quorumLocker(t, nodes, newSkewed(), nil), "r")
		waiting := quorumLocker(t, nodes, newSkewed(), nil)
		type result struct {
			k   *Lock
			err error
		}
		got := make(chan result)
		go func() {
			k, err := waiting.Acquire(t.Context(), "r", nil)
			got <- result{k, err}
		}()
		synctest.Wait()
		for i, ahead := range []int64{0, turnsReserved / 2, 0} {
			nodes[i].mu.Lock()
			nodes[i].shelf.counters[newKeys(DefaultPrefix, "r").counter] = high + ahead
			nodes[i].mu.Unlock()
		}
		asked := 0
		nodes[1].late(func(*call) time.Duration { return time.Millisecond })
		nodes[2].fault(func(_ context.Context, c *call) error {
			if c.op == opPropose {
				if asked++; asked > 1 { // it says where its counter is, and then nothing any more
					return &faultError{err: errors.New("down")}
				}
			}
			return nil
		})
		before := nodes[0].count(opPropose)
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := <-got
		if rounds := nodes[0].count(opPropose) - before; r.err != nil || rounds > 4 {
			t.Fatalf("%d rounds, want 4 at most: %v", rounds, r.err)
		}
		if id := r.k.Fence().ID; id <= high {
			t.Errorf("fence %d", id)
		}
	})
}
