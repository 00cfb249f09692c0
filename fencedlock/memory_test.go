package fencedlock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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

	mute bool        // nobody can listen
	drop atomic.Bool // wake-ups are lost
}

// shelf is the data of a lock service and the rules for changing it.
type shelf struct {
	locks    map[string]entry
	forced   map[string]string // the value of a lock that was ended by force
	counters map[string]int64
	queues   map[string][]place
	// ears are those who listen, and what was published to them.
	ears map[string]chan string
}

// place is one entry of a queue.
type place struct {
	holder, waker, label string
	ttl                  int64
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
	return shelf{
		locks: map[string]entry{}, forced: map[string]string{}, counters: map[string]int64{},
		queues: map[string][]place{}, ears: map[string]chan string{},
	}
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

// memoryChannel is one end of what is published in a memory.
type memoryChannel struct {
	m    *memory
	name string
	ear  chan string
	stop chan struct{}
}

func (m *memory) wakes() hearing { return sure }

func (m *memory) listen(_ context.Context, name string) (channel, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mute {
		return nil, errDown
	}
	c := &memoryChannel{m: m, name: name, ear: make(chan string, 1000), stop: make(chan struct{})}
	m.shelf.ears[name] = c.ear
	return c, nil
}

func (c *memoryChannel) receive() (string, error) {
	t := time.NewTimer(quiet)
	defer t.Stop()
	select {
	case text := <-c.ear:
		if c.m.drop.Load() {
			return "", nil
		}
		return text, nil
	case <-t.C:
		return "", nil
	case <-c.stop:
		return "", errDown
	}
}

func (c *memoryChannel) close() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.m.shelf.ears[c.name] == c.ear {
		delete(c.m.shelf.ears, c.name)
		close(c.stop)
	}
}

// wipe forgets everything, as FLUSHALL does.
func (m *memory) wipe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	ears := m.shelf.ears
	m.shelf = newShelf()
	m.shelf.ears = ears
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
	if c.op >= opPropose {
		return s.askNode(now, c)
	}
	if c.op == opInspect {
		s.inspect(now, c)
		return answer{}, nil
	}
	if c.op == opRelease && c.waits {
		q := slices.DeleteFunc(s.queues[c.keys.queue], func(p place) bool { return p == placeOf(c) })
		s.setQueue(c.keys.queue, q)
	}
	switch {
	case c.op == opAcquire:
		return s.acquire(now, c)
	case c.op == opForce && ok:
		return s.force(now, c)
	case c.op == opWhy && c.value != "" && s.forced[c.forced] == c.value:
		return answer{verdict: forced}, nil
	case c.op == opWhy:
		return answer{verdict: absent}, nil
	case !ok:
		return answer{verdict: absent}, nil
	case c.op == opKeep && e.holder == c.holder:
		e.until = now + ttl
		s.locks[c.keys.lock] = e
		return answer{verdict: released}, nil
	case c.op == opRelease && e.holder == c.holder:
		delete(s.locks, c.keys.lock)
		s.passOn(now, c)
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
	e, mine := s.locks[c.keys.lock]
	if mine {
		if e.holder != c.holder {
			return s.inTheWay(now, c), nil
		}
		until = max(until, e.until)
		if e.fence >= c.least {
			e.until = until
			s.locks[c.keys.lock] = e
			return answer{verdict: granted, fence: e.fence}, nil
		}
	}
	spare := int64(0)
	if !mine && len(s.queues[c.keys.queue]) > 0 {
		spare = 7
	}
	fence, spare, err := s.mint(c, max(c.proposal, c.least), spare)
	if err != nil {
		return answer{}, err
	}
	if !mine && len(s.queues[c.keys.queue]) > 0 {
		s.enqueue(c)
		if holder := s.grant(now, c, fence, spare); holder != "" && holder != c.holder {
			return s.inTheWay(now, c), nil
		}
	}
	s.locks[c.keys.lock] = entry{holder: c.holder, label: c.label, fence: fence, until: until}
	return answer{verdict: granted, fence: fence, spare: int(spare)}, nil
}

// inTheWay answers a caller that does not get the lock, and queues it.
func (s *shelf) inTheWay(now time.Duration, c *call) answer {
	e := s.locks[c.keys.lock]
	a := answer{verdict: held, fence: e.fence, ttl: (e.until - now).Truncate(time.Millisecond), label: e.label}
	if c.waits {
		a.verdict, a.place = queued, s.enqueue(c)
	}
	return a
}

func placeOf(c *call) place {
	return place{holder: c.holder, waker: c.waker, label: c.label, ttl: c.ttl}
}

func (s *shelf) enqueue(c *call) int {
	q := s.queues[c.keys.queue]
	if i := slices.Index(q, placeOf(c)); i >= 0 || !c.waits {
		return i
	}
	s.queues[c.keys.queue] = append(q, placeOf(c))
	return len(q)
}

func (s *shelf) setQueue(key string, q []place) {
	s.queues[key] = q
	if len(q) == 0 {
		delete(s.queues, key)
	}
}

func (s *shelf) mint(c *call, fence, spare int64) (int64, int64, error) {
	counter, ok := s.counters[c.keys.counter]
	if fence >= maxFence {
		return 0, 0, &ConfigError{Need: needFence}
	}
	if ok && counter >= fence {
		fence = counter + 1
		if fence >= maxFence {
			return 0, 0, c.broken("counter")
		}
	}
	if fence >= 4611686018427387000 {
		spare = 0
	}
	s.counters[c.keys.counter] = fence + spare
	return fence, spare, nil
}

// grant gives the free lock to the first in the queue who is there.
func (s *shelf) grant(now time.Duration, c *call, fence, spare int64) string {
	q := s.queues[c.keys.queue]
	defer func() { s.setQueue(c.keys.queue, q) }()
	for len(q) > 0 {
		p := q[0]
		q = q[1:]
		if p.holder == c.holder && c.op == opAcquire {
			return p.holder
		}
		name, isSure := strings.CutPrefix(p.waker, "!")
		ear := s.ears[c.keys.lock[:strings.Index(c.keys.lock, "{")]+"wake:"+name]
		if name, sharded := strings.CutPrefix(p.waker, "#"); sharded {
			isSure, ear = true, s.ears[strings.TrimSuffix(c.keys.lock, "lock")+"wake:"+name]
		}
		if isSure && ear == nil {
			continue
		}
		if ear != nil {
			ear <- strings.TrimSuffix(fmt.Sprintf("%s %d %d", p.holder, fence, spare), " 0")
		}
		ttl := min(time.Duration(p.ttl)*time.Millisecond, firstLease)
		s.locks[c.keys.lock] = entry{holder: p.holder, label: p.label, fence: fence, until: now + ttl}
		return p.holder
	}
	return ""
}

// passOn grants a lock that was released.
func (s *shelf) passOn(now time.Duration, c *call) {
	if len(s.queues[c.keys.queue]) == 0 {
		return
	}
	if fence, spare, err := s.mint(c, c.proposal, 7); err == nil {
		s.grant(now, c, fence, spare)
	}
}

func (s *shelf) force(now time.Duration, c *call) (answer, error) {
	e := s.locks[c.keys.lock]
	switch {
	case e.holder == c.holder:
	case e.fence != c.fence:
		return answer{verdict: held, fence: e.fence, ttl: (e.until - now).Truncate(time.Millisecond), label: e.label}, nil
	default:
		s.forced[c.forced] = e.value()
		s.locks[c.keys.lock] = entry{holder: c.holder, label: c.label, fence: e.fence, until: now + time.Duration(c.ttl)*time.Millisecond}
	}
	return answer{verdict: granted, fence: e.fence}, nil
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
