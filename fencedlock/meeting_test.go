package fencedlock

import (
	"sync"
	"testing"
	"testing/synctest"
)

// TestCallersOfOneLockerMeetAtAnyMoment is for the race detector: a turn may come
// while its caller is still taking its place in the line.
func TestCallersOfOneLockerMeetAtAnyMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := testLocker(t, newMemory(), newSkewed(), nil)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 200 {
					if err := mustAcquire(t, l, "r").Release(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	})
}
