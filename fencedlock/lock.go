package fencedlock

import (
	"context"
	"sync"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

// Lock is one tenure of one resource. It is renewed until it is released or
// lost: one that is dropped without [Lock.Release] is held for as long as the
// process runs, unless [Options.MaxHold] says otherwise. It is safe for
// concurrent use.
type Lock struct {
	l        *Locker
	fence    fencedstore.Fence
	terms    terms
	parent   context.Context // whose values hooks and logs see
	attempts int             // how often Redis was asked for it
	ask      call            // acquires, then releases
	value    string          // what Redis has while it is held; made on demand
	ran      bool            // Redis may have granted what nobody was told of
	asked    instant         // when the question was sent that found somebody in the way
	told     answer          // the grant that a wake-up told of
	spare    int             // how many fences after its own it may pass on
	met      *HeldError      // who was in the way
	state                    // guarded by the scheduler's mutex

	releasing sync.Mutex // one release at a time; guards the fields below
	cleared   bool       // Redis confirmed that the key is gone
	result    error      // of the release that found so
}

// state is what changes while a lock is held.
type state struct {
	lease    lease
	since    instant                            // when it was granted
	err      error                              // nil while held
	done     chan struct{}                      // made on demand
	contexts map[uint64]context.CancelCauseFunc // those to cancel at the end
	contextN uint64

	// The next renewal.
	renewAt  time.Duration // when, by the monotonic clock
	attempt  uint32        // counts them, so that an overtaken one cannot fail the next
	answerBy time.Duration // until when the one under way is waited for; 0 for none
	failing  error         // why the last one failed
	fails    int           // how many failed in a row
	doubt    time.Duration // until when the lease must be confirmed; 0 when there is no doubt
	paused   bool          // the fence is being replaced

	// The spots in the scheduler's heaps.
	watched, ready spot
}

// renewal is one question whether a lock still stands.
type renewal struct {
	call
	lock    *Lock
	of      fencedstore.Fence
	attempt uint32
}

// Fence returns the lock's fence. It is the lock's for ever, also after its
// end; stores decide what it is still good for.
func (k *Lock) Fence() fencedstore.Fence { return k.fence }

// Done returns a channel that is closed when the lock ends: lost or released.
func (k *Lock) Done() <-chan struct{} {
	_, _ = k.look()
	s := &k.l.scheduler
	s.Lock()
	defer s.Unlock()
	if k.done == nil {
		k.done = make(chan struct{})
		if k.err != nil {
			close(k.done)
		}
	}
	return k.done
}

// Err returns nil while the lock is held, a *[LostError] when it was lost, and
// [ErrReleased] when it was released. It looks at the clock and sends nothing.
func (k *Lock) Err() error {
	_, err := k.look()
	return err
}

// Remaining returns for how long the lock is certainly still held if no
// renewal succeeds: 0 when it ended, or when a jump of the clock put it in
// doubt. It looks at the clock and sends nothing.
func (k *Lock) Remaining() time.Duration {
	left, _ := k.look()
	return left
}

// look ends the lock if its lease has run out, so that a holder that was paused
// learns of it no later than it asks, and returns what is left.
func (k *Lock) look() (time.Duration, error) {
	s := &k.l.scheduler
	s.Lock()
	if k.err != nil {
		defer s.Unlock()
		return 0, k.err
	}
	now := s.now()
	lost := k.overdue(now)
	if lost != nil {
		k.end(lost)
		s.Unlock()
		k.l.gone([]*Lock{k})
		return 0, lost
	}
	defer s.Unlock()
	if k.doubt > 0 {
		s.watch(k, k.next(now))
		return 0, nil
	}
	return k.lease.left(now), nil
}

// Context returns a context for work under the lock: a child of parent that
// carries the fence (see [fencedstore.FromContext]) and ends with the lock. Its
// cause is then the *[LostError], or [ErrReleased]. When parent ends first, the
// cause is parent's. Call cancel when the work is done, to free what the
// context holds; the lock stays. A lock can have any number of contexts.
func (k *Lock) Context(parent context.Context) (context.Context, context.CancelFunc) {
	_, _ = k.look()
	ctx, cancel := context.WithCancelCause(fencedstore.NewLeaseContext(parent, k.fence, k.Remaining))
	s := &k.l.scheduler
	s.Lock()
	defer s.Unlock()
	if k.err != nil {
		cancel(k.err)
		return ctx, func() { cancel(nil) }
	}
	if k.contexts == nil {
		k.contexts = make(map[uint64]context.CancelCauseFunc, 1)
	}
	k.contextN++
	id := k.contextN
	k.contexts[id] = cancel
	return ctx, func() {
		cancel(nil)
		s.Lock()
		delete(k.contexts, id)
		s.Unlock()
	}
}

// end makes the lock ended. The mutex is held; cancelContexts is to follow
// without it.
func (k *Lock) end(err error) {
	k.err = err
	k.l.scheduler.forget(k)
	if k.done != nil {
		close(k.done)
	}
}

func (k *Lock) cancelContexts() {
	s := &k.l.scheduler
	s.Lock()
	contexts := k.contexts
	k.contexts = nil // none is added after the end
	s.Unlock()
	for _, cancel := range contexts {
		cancel(k.err)
	}
}

// lost makes the error of a lock that ends for reason.
func (k *Lock) lost(reason Reason) *LostError {
	return &LostError{Fence: k.fence, Reason: reason, Err: k.failing}
}
