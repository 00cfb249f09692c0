package fencedlock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// late has a node answer after d, which is different for every caller.
func (f *fakeNode) late(d func(c *call) time.Duration) {
	f.fault(func(ctx context.Context, c *call) error {
		if d := d(c); d > 0 {
			pass(d)
		}
		return nil
	})
}

// TestSplitVotesHaveAWinner has two callers propose at the same instant, each
// nearer to its own half of four nodes, so that each gets two.
func TestSplitVotesHaveAWinner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := fakeQuorum(4)
		for i, f := range nodes {
			f.late(func(c *call) time.Duration {
				if (c.label == "near") == (i < 2) {
					return time.Millisecond
				}
				return 2 * time.Millisecond
			})
		}
		near := quorumLocker(t, nodes, newSkewed(), &Options{Label: "near"})
		behind := newSkewed()
		behind.step(-time.Microsecond) // equal proposals are decided by chance
		far := quorumLocker(t, nodes, behind, &Options{Label: "far"})
		for range 50 {
			var wg sync.WaitGroup
			locks := make([]*Lock, 2)
			for i, l := range []*Locker{near, far} {
				wg.Go(func() {
					k, err := l.TryAcquire(t.Context(), "r", nil)
					if err != nil && !errors.Is(err, ErrHeld) {
						t.Errorf("TryAcquire: %v", err)
					}
					locks[i] = k
				})
			}
			wg.Wait()
			if (locks[0] == nil) == (locks[1] == nil) {
				t.Fatalf("got %v and %v, want one of them", locks[0], locks[1])
			}
			for _, k := range locks {
				if k != nil {
					if err := k.Release(t.Context()); err != nil {
						t.Errorf("Release: %v", err)
					}
				}
			}
			pass(time.Second)
		}
	})
}

// TestManyWhoSplitVotesAllGetTheirTurn has callers that start together, on nodes
// that answer after random times.
func TestManyWhoSplitVotesAllGetTheirTurn(t *testing.T) {
	t.Parallel()
	for _, size := range []int{3, 4, 5} {
		synctest.Test(t, func(t *testing.T) {
			nodes := fakeQuorum(size)
			for _, f := range nodes {
				f.late(func(*call) time.Duration { return jitter(2 * time.Millisecond) })
			}
			var mu sync.Mutex
			var inside int
			var last int64
			var wg sync.WaitGroup
			for i := range 6 {
				s := newSkewed()
				s.step(time.Duration(i-3) * time.Minute)
				l := quorumLocker(t, nodes, s, nil)
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					for range 20 {
						k, err := l.Acquire(ctx, "r", nil)
						if err != nil {
							t.Errorf("Acquire: %v", err)
							return
						}
						mu.Lock()
						inside++
						if inside != 1 || k.Fence().ID <= last {
							t.Errorf("%d inside, fence %d after %d", inside, k.Fence().ID, last)
						}
						last = k.Fence().ID
						mu.Unlock()
						pass(jitter(5 * time.Millisecond))
						mu.Lock()
						inside--
						mu.Unlock()
						if err := k.Release(ctx); err != nil {
							t.Errorf("Release: %v", err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
