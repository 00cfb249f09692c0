package fencedlock

import (
	"testing"
	"time"
)

// Figures, not the function that makes them: without the margin a holder whose
// clock is slow believes in a lock that Redis has given to another.
func TestLeaseEndsEarlierHereThanInARedisWhoseClockIsFast(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ ttl, ends time.Duration }{
		{10 * time.Millisecond, 7900 * time.Microsecond},
		{time.Second, 988 * time.Millisecond},
		{30 * time.Second, 29698 * time.Millisecond},
	} {
		e := lease{ttl: c.ttl}
		for _, clock := range []func(time.Duration) instant{
			func(d time.Duration) instant { return instant{mono: d} },
			func(d time.Duration) instant { return instant{wall: d} },
		} {
			if left := e.left(clock(c.ends)); left != 0 {
				t.Errorf("a lease of %v has %v left after %v, want 0", c.ttl, left, c.ends)
			}
			if fast := c.ends * 1009 / 1000; e.ttl-fast < 0 {
				t.Errorf("a lease of %v ends after %v here, and after less in a Redis that is 0.9 %% faster", c.ttl, c.ends)
			}
		}
	}
}
