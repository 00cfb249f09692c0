package fencedlock

import (
	"sync"
	"time"
)

const (
	// maxSleep is how often the scheduler compares the clocks while it has
	// locks, to notice that the machine slept.
	maxSleep = time.Second
	// minStride is the shortest time that it sleeps when nothing is due.
	minStride = 50 * time.Millisecond
	// maxDrift is how far the clocks may come apart in that time by adjusting
	// their speed.
	maxDrift = 2 * time.Millisecond
)

// scheduler watches the held locks of one Locker: it renews each in time and
// ends it at the instant its lease runs out. It has one goroutine and one
// timer, whatever the number of locks. The goroutine starts with the first
// lock and ends some time after the last one, so that a lone acquire and release
// never wait for it.
//
// Its mutex also guards the state of the locks, because what is due depends on
// it. It is never held while anything is sent.
type scheduler struct {
	now  clock
	send func(batch []*renewal) // renews one batch and settles it
	told func(batch []*renewal) // calls the hooks for it, which may take long
	gone func(lost []*Lock)     // tells of locks that were lost

	sync.Mutex
	watched lockHeap // every held lock, by when it has to be looked at
	ready   lockHeap // those that wait for a sender, by when their lease ends
	popped  []*Lock  // room for pass
	timer   *time.Timer
	wake    time.Duration // when timer fires, by now().mono
	stride  time.Duration // how far ahead timer is set at most
	busy bool          // a longer stride would have been too long since the last pass
	drift   time.Duration // how far the clocks were apart
	running bool
	closed  bool
	senders int            // batches under way
	coming  int            // senders among them that have not taken one yet
	work    sync.WaitGroup // the goroutine and the senders
}

func (s *scheduler) init(now clock) {
	s.now = now
	s.watched.of = func(k *Lock) *spot { return &k.watched }
	s.ready.of = func(k *Lock) *spot { return &k.ready }
}

// watch has k looked at when it is due. The mutex is held.
func (s *scheduler) watch(k *Lock, due time.Duration) {
	s.watched.put(k, due)
	switch {
	case !s.running:
		s.start(due)
	case due < s.wake:
		s.hurry(due)
	case due < s.wake+s.stride:
		s.busy = true
	}
}

// hurry sets the timer to an earlier time. That wakes the thread that waits for
// the network, which has the old time in mind. Under contention, where every
// tenure begins with a short lease, short strides cost less than that each time.
// The mutex is held.
func (s *scheduler) hurry(due time.Duration) {
	now := s.now().mono
	s.wake, s.busy = due, true
	s.stride = min(s.stride, max(due-now, minStride))
	s.timer.Reset(due - now)
}

// forget has k looked at no more. The mutex is held. The goroutine sleeps on.
func (s *scheduler) forget(k *Lock) {
	s.watched.remove(k)
	s.ready.remove(k)
}

func (s *scheduler) start(due time.Duration) {
	now := s.now()
	s.running, s.drift = true, now.wall-now.mono
	s.stride = min(max(due-now.mono, minStride), maxSleep)
	s.busy = s.stride < maxSleep
	s.wake = min(due, now.mono+maxSleep)
	if s.timer == nil {
		s.timer = time.NewTimer(s.wake - now.mono)
	} else {
		s.timer.Reset(s.wake - now.mono)
	}
	s.work.Go(s.run)
}

func (s *scheduler) run() {
	for more := true; more; {
		<-s.timer.C
		var lost []*Lock
		lost, more = s.pass()
		s.gone(lost)
	}
}

// pass ends what has run out, has senders renew what is to be renewed, and sets
// the timer for the next pass.
func (s *scheduler) pass() (lost []*Lock, more bool) {
	s.Lock()
	defer s.Unlock()
	now := s.now()
	s.pop(now)
	for _, k := range s.popped {
		if k.tick(now) {
			lost = append(lost, k)
		}
	}
	clear(s.popped)
	s.engage()
	idle := s.watched.Len() == 0
	if s.closed || idle && s.stride == maxSleep {
		s.running = false
		return lost, false
	}
	if !s.busy {
		s.stride = min(2*s.stride, maxSleep)
	}
	s.busy = false
	s.wake = now.mono + s.stride
	if !idle {
		s.wake = min(s.wake, s.watched.locks[0].watched.key)
	}
	s.timer.Reset(s.wake - now.mono)
	return lost, true
}

// pop moves the locks that are due to s.popped: all of them when the wall clock
// jumped ahead.
func (s *scheduler) pop(now instant) {
	drift := now.wall - now.mono
	jumped := drift-s.drift > maxDrift
	s.drift = drift
	s.popped = s.popped[:0]
	for s.watched.Len() > 0 {
		first := s.watched.locks[0]
		if !jumped && first.watched.key > now.mono+first.slack() {
			return
		}
		s.popped = append(s.popped, s.watched.next())
	}
}

// spawn runs f on a goroutine that close is waited for with, or on the caller's
// when it is too late for one.
func (s *scheduler) spawn(f func()) {
	s.Lock()
	if s.closed {
		s.Unlock()
		f()
		return
	}
	s.work.Go(f)
	s.Unlock()
}

// close stops the goroutine and returns the locks that were watched. The mutex
// is held.
func (s *scheduler) close() []*Lock {
	s.closed = true
	s.ready.empty()
	watched := s.watched.empty()
	if s.running {
		s.timer.Reset(0)
	}
	return watched
}
