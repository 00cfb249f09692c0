package fencedlock

import (
	"container/heap"
	"sync"
	"time"
)

const (
	// maxBatch is how many renewals go into one round trip.
	maxBatch = 256
	// maxSenders bounds the batches under way at once, and with them the
	// goroutines of a Locker whose Redis does not answer.
	maxSenders = 8
	// maxSleep is how often the scheduler compares the clocks while it has
	// locks, to notice that the machine slept.
	maxSleep = time.Second
	// maxDrift is how far the clocks may come apart in that time by adjusting
	// their speed.
	maxDrift = 2 * time.Millisecond
)

// scheduler watches the held locks of one Locker: it renews each in time and
// ends it at the instant its lease runs out. It has one goroutine and one
// timer, whatever the number of locks. The goroutine starts with the first
// lock and ends when it wakes up to none, so that a lone acquire and release
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
	queue   dueQueue
	popped  []*Lock // room for pass
	timer   *time.Timer
	wake    time.Duration // when timer fires, by now().mono
	drift   time.Duration // how far the clocks were apart
	running bool
	closed  bool
	senders int
	work    sync.WaitGroup // the goroutine and the senders
}

// watch puts k into the queue, or moves it. The mutex is held.
func (s *scheduler) watch(k *Lock, due time.Duration) {
	k.due = due
	if k.index < 0 {
		heap.Push(&s.queue, k)
	} else {
		heap.Fix(&s.queue, k.index)
	}
	switch {
	case !s.running:
		s.start(due)
	case due < s.wake:
		s.wake = due
		s.timer.Reset(due - s.now().mono)
	}
}

// forget takes k out of the queue. The mutex is held. The goroutine sleeps on.
func (s *scheduler) forget(k *Lock) {
	if k.index >= 0 {
		heap.Remove(&s.queue, k.index)
	}
}

func (s *scheduler) start(due time.Duration) {
	now := s.now()
	s.running, s.drift = true, now.wall-now.mono
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
		var due []*renewal
		lost, due, more = s.pass()
		s.gone(lost)
		for len(due) > 0 {
			n := min(len(due), maxBatch)
			s.dispatch(due[:n:n])
			due = due[n:]
		}
	}
}

// pass ends what has run out, collects what is to be renewed, and sets the
// timer for the next pass.
func (s *scheduler) pass() (lost []*Lock, renew []*renewal, more bool) {
	s.Lock()
	defer s.Unlock()
	now := s.now()
	room := (maxSenders - s.senders) * maxBatch
	s.pop(now)
	for _, k := range s.popped {
		r, ended := k.tick(now, len(renew) < room)
		if r != nil {
			renew = append(renew, r)
		}
		if ended {
			lost = append(lost, k)
		}
	}
	clear(s.popped)
	s.senders += (len(renew) + maxBatch - 1) / maxBatch
	if len(s.queue) == 0 || s.closed {
		s.running = false
		return lost, renew, false
	}
	s.wake = min(s.queue[0].due, now.mono+maxSleep)
	s.timer.Reset(s.wake - now.mono)
	return lost, renew, true
}

// pop moves the locks that are due from the queue to s.popped: all of them when
// the wall clock jumped ahead.
func (s *scheduler) pop(now instant) {
	drift := now.wall - now.mono
	jumped := drift-s.drift > maxDrift
	s.drift = drift
	s.popped = s.popped[:0]
	for len(s.queue) > 0 && (jumped || s.queue[0].due <= now.mono+s.queue[0].slack()) {
		k, _ := heap.Pop(&s.queue).(*Lock)
		s.popped = append(s.popped, k)
	}
}

// dispatch sends one batch on a goroutine of its own: the timer must go on
// while Redis does not answer.
func (s *scheduler) dispatch(batch []*renewal) {
	s.work.Go(func() {
		s.send(batch)
		s.Lock()
		s.senders--
		s.Unlock()
		s.told(batch)
	})
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
	watched := s.queue
	s.queue = nil
	for _, k := range watched {
		k.index = -1
	}
	if s.running {
		s.timer.Reset(0)
	}
	return watched
}

// dueQueue is a heap by the next due instant.
type dueQueue []*Lock

func (q dueQueue) Len() int           { return len(q) }
func (q dueQueue) Less(i, j int) bool { return q[i].due < q[j].due }

func (q dueQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements [heap.Interface].
func (q *dueQueue) Push(x any) {
	k, _ := x.(*Lock)
	k.index = len(*q)
	*q = append(*q, k)
}

// Pop implements [heap.Interface].
func (q *dueQueue) Pop() any {
	last := len(*q) - 1
	k := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	k.index = -1
	return k
}
