package fencedlock

import (
	"sync"
	"time"
)

const (
	// firstAvoid and maxAvoid are for how long a node is left alone after its
	// first failure, and after many in a row.
	firstAvoid = 50 * time.Millisecond
	maxAvoid   = 2 * time.Second
	// slow is how long a node may answer nothing at all before it is avoided,
	// without waiting for a question to fail.
	slow = 100 * time.Millisecond
	// maxPending bounds the questions that wait for one node.
	maxPending = 4096
)

// breaker keeps callers away from a node that does not answer, so that a dead one
// costs nothing: now and then one question tries it.
type breaker struct {
	mu      sync.Mutex
	fails   int
	since   time.Duration // when the last failure was counted
	retry   time.Duration // from when one may try
	pending int
	silent  time.Duration // since when it has answered nothing of what is pending
}

// well reports that the node may be asked by everybody.
func (b *breaker) well(now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fails == 0 && !b.isSlow(now)
}

func (b *breaker) isSlow(now time.Duration) bool { return b.pending > 0 && now-b.silent > slow }

// enter asks whether a question may be sent now. Force sends it to a node that is
// avoided. done is to follow when it may.
func (b *breaker) enter(now time.Duration, force bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.pending >= maxPending, !force && b.isSlow(now), !force && b.fails > 0 && now < b.retry:
		return false
	case b.fails > 0:
		b.retry = now + b.avoid()
	}
	if b.pending == 0 {
		b.silent = now
	}
	b.pending++
	return true
}

// avoid grows with the failures. The mutex is held.
func (b *breaker) avoid() time.Duration {
	d := min(firstAvoid<<min(b.fails-1, 10), maxAvoid)
	return d*3/4 + jitter(d/2)
}

// done takes note of how a question that was sent at began ended, and reports
// whether that changed anything. Of several that fail together one counts.
func (b *breaker) done(answered bool, began, now time.Duration) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending--
	switch {
	case answered:
		changed = b.fails > 0
		b.fails, b.silent = 0, now
	case b.fails == 0 || began >= b.since:
		changed = b.fails == 0
		b.fails++
		b.since, b.retry = now, now+b.avoid()
	}
	return changed
}
