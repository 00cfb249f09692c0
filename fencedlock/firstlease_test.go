package fencedlock_test

import (
	"testing"

	"github.com/fenced-go/fenced/internal/testenv"
)

// The one ahead may have died: whoever is behind waits for a first lease, not for
// the lease that the dead one asked for.
func TestGrantToAWaiterIsAFirstLease(t *testing.T) {
	t.Parallel()
	for asked, most := range map[string]int64{"30000": 500, "40": 40} {
		t.Run(asked, func(t *testing.T) {
			t.Parallel()
			srv := testenv.NewRedis(t)
			k := acquire(t, locker(t, client(t, srv.Addr()), nil), "r")
			srv.Do(t, "RPUSH", queueKey, "dead::"+asked+":label")
			release(t, k)
			if left, ok := srv.Do(t, "PTTL", lockKey).(int64); !ok || left > most {
				t.Errorf("the lock lasts for %v ms, want at most %d", left, most)
			}
		})
	}
}
