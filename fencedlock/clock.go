package fencedlock

import "time"

// instant is one reading of both clocks of this machine. The monotonic clock
// cannot be set, but stands still while the machine sleeps; the wall clock
// goes on, but can be set. A lease trusts the one that ran further.
type instant struct {
	mono time.Duration // since the Locker was made
	wall time.Duration // since 1970
}

type clock func() instant

func newClock() clock {
	start := time.Now()
	return func() instant {
		t := time.Now()
		return instant{mono: t.Sub(start), wall: time.Duration(t.UnixNano())}
	}
}

// micros is the wall clock in microseconds, from which fence IDs are proposed.
func (i instant) micros() int64 { return int64(i.wall / time.Microsecond) }

// margin is how much earlier than Redis a holder considers its lease ended:
// 1 % for clocks that run at different speeds, and 2 ms for their grain.
func margin(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// lease is the time for which a lock may be believed in: ttl, counted from
// before the command that asked for it was sent.
type lease struct {
	start instant
	ttl   time.Duration
}

// left is the time of the lease that remains, by the worse of both clocks; it
// may be negative.
func (e lease) left(now instant) time.Duration {
	elapsed := max(now.mono-e.start.mono, now.wall-e.start.wall)
	return e.ttl - margin(e.ttl) - elapsed
}

// leftMono is what remains by the monotonic clock alone.
func (e lease) leftMono(now instant) time.Duration {
	return e.ttl - margin(e.ttl) - (now.mono - e.start.mono)
}

// doubtful reports that the wall clock ran ahead of the monotonic one by more
// than adjusting its speed explains: the machine slept, or the clock was set.
func (e lease) doubtful(now instant) bool {
	return (now.wall-e.start.wall)-(now.mono-e.start.mono) > margin(e.ttl)
}
