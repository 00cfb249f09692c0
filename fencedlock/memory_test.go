package fencedlock

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// memory is a lock service by the rules of the scripts, in Go. It keeps its own
// time and can be told to misbehave.
type memory struct {
	mu     sync.Mutex
	shelf  shelf
	asked  map[op]int
	rounds int // batches

	// before runs ahead of every question, without the mutex; an error is the
	// answer, and the question was not asked.
	before func(ctx context.Context, c *call) error
	// after runs behind every question; an error hides the answer.
	after func(ctx context.Context, c *call) error
}

// shelf is the data of a lock service and the rules for changing it.
type shelf struct {
	locks    map[string]entry
	counters map[string]int64
}

type entry struct {
	holder, label string
	fence         int64
	until         time.Duration
}

func newMemory() *memory {
	return &memory{shelf: newShelf(), asked: map[op]int{}}
}

func newShelf() shelf {
	return shelf{locks: map[string]entry{}, counters: map[string]int64{}}
}

// fault sets before, while others may be asking.
func (m *memory) fault(before func(ctx context.Context, c *call) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before = before
}

func (m *memory) do(ctx context.Context, c *call) {
	c.answer, c.err = answer{}, nil
	m.mu.Lock()
	before := m.before
	m.mu.Unlock()
	if before != nil {
		if c.err = before(ctx, c); c.err != nil {
			return
		}
	}
	m.mu.Lock()
	m.asked[c.op]++
	c.answer, c.err = m.shelf.ask(time.Duration(time.Now().UnixNano()), c)
	m.mu.Unlock()
	if m.after != nil {
		if err := m.after(ctx, c); err != nil {
			c.answer, c.err = answer{}, err
		}
	}
}

func (m *memory) batch(ctx context.Context, cs []*call) {
	m.mu.Lock()
	m.rounds++
	m.mu.Unlock()
	for _, c := range cs {
		m.do(ctx, c)
	}
}

func (m *memory) count(o op) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[o]
}

func (m *memory) roundTrips() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rounds
}

// wipe forgets everything, as FLUSHALL does.
func (m *memory) wipe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shelf = newShelf()
}

// steal gives the lock to somebody else.
func (m *memory) steal(resource string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := newKeys(DefaultPrefix, resource)
	m.shelf.counters[key.counter]++
	m.shelf.locks[key.lock] = entry{
		holder: "thief", fence: m.shelf.counters[key.counter],
		until: time.Duration(time.Now().Add(time.Hour).UnixNano()),
	}
}

func (m *memory) live() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	locks := maps.Clone(m.shelf.locks)
	maps.DeleteFunc(locks, func(_ string, e entry) bool { return e.until <= time.Duration(time.Now().UnixNano()) })
	return len(locks)
}

// ask answers c at the given instant of the service's own time.
func (s *shelf) ask(now time.Duration, c *call) (answer, error) {
	if e, ok := s.locks[c.keys.lock]; ok && e.until <= now {
		delete(s.locks, c.keys.lock)
	}
	e, ok := s.locks[c.keys.lock]
	ttl := time.Duration(c.ttl) * time.Millisecond
	switch {
	case c.op == opAcquire:
		return s.acquire(now, c)
	case !ok:
		return answer{verdict: absent}, nil
	case c.op == opRelease && e.holder == c.holder:
		delete(s.locks, c.keys.lock)
		return answer{verdict: released}, nil
	case c.op == opRenew && e.value() == c.value:
		e.until = max(e.until, now+ttl)
		s.locks[c.keys.lock] = e
		return answer{verdict: renewed}, nil
	}
	return answer{verdict: taken}, nil
}

func (s *shelf) acquire(now time.Duration, c *call) (answer, error) {
	until := now + time.Duration(c.ttl)*time.Millisecond
	if e, ok := s.locks[c.keys.lock]; ok {
		if e.holder != c.holder {
			return answer{verdict: held, fence: e.fence, ttl: (e.until - now).Truncate(time.Millisecond), label: e.label}, nil
		}
		until = max(until, e.until)
		if e.fence >= c.least {
			e.until = until
			s.locks[c.keys.lock] = e
			return answer{verdict: granted, fence: e.fence}, nil
		}
	}
	fence := max(s.counters[c.keys.counter]+1, c.proposal, c.least)
	if fence >= maxFence {
		return answer{}, &ConfigError{Need: needFence}
	}
	s.counters[c.keys.counter] = fence
	s.locks[c.keys.lock] = entry{holder: c.holder, label: c.label, fence: fence, until: until}
	return answer{verdict: granted, fence: fence}, nil
}

func (e entry) value() string {
	return lockValue(e.holder, e.fence, e.label)
}

// skewed is a clock whose wall part a test can move.
type skewed struct {
	clock clock
	wall  atomic.Int64
}

func newSkewed() *skewed { return &skewed{clock: newClock()} }

func (s *skewed) now() instant {
	i := s.clock()
	i.wall += time.Duration(s.wall.Load())
	return i
}

func (s *skewed) step(d time.Duration) { s.wall.Add(int64(d)) }

// testLocker returns a Locker on m whose clocks are s; it is closed with the
// test.
func testLocker(t *testing.T, m *memory, s *skewed, opts *Options) *Locker {
	t.Helper()
	o, err := opts.complete()
	if err != nil {
		t.Fatal(err)
	}
	l := newLocker(m, o, s.now)
	t.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, ErrUnavailable) {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

// pass lets time pass in a bubble of package synctest.
func pass(d time.Duration) { <-time.After(d) }

var errDown = &faultError{err: errors.New("connection refused")}

// hang blocks as a socket does: until the deadline of ctx.
func hang(ctx context.Context) error {
	end, _ := ctx.Deadline()
	t := time.NewTimer(time.Until(end))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return &faultError{err: errors.New("i/o timeout"), ran: true}
}
