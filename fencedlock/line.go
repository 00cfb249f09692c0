package fencedlock

import (
	"context"
	"slices"
	"sync"
	"time"
)

// lines are the waiters of one Locker, by resource. Those for one resource share
// one place in the queue of Redis: the first of them, who asks. A grant to it
// comes with a block of fences, so that the lock can be passed on in memory, each
// turn with a fence of its own, before the next process has it.
type lines struct {
	mu sync.Mutex
	by map[string]*line // by the key of the lock
}

// line is what one Locker has to do with one resource that is waited for.
type line struct {
	waiters []*waiter
	block   *Lock      // ours, with fences to spare, or nil
	met     *HeldError // who was in the way when the first has asked
}

// waiter is one call of Acquire that waits.
type waiter struct {
	k      *Lock
	asking bool          // it has a place in the queue of Redis, or is getting one
	moved  chan struct{} // has room for one: look where you stand
	turn   chan struct{} // has room for one: the lock is yours
	woken  chan answer   // has room for one: a grant by Redis, or with fence 0: ask
	room   *room         // where it hears of that, of channels kept by key; guarded by shards
}

// deferral is for how long the first in the line leaves it to the lock that is
// ours to be passed on, before it queues in Redis.
const deferral = firstLease / 2

// known reports whether resource is waited for, or ours to pass on.
func (ls *lines) known(key string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.by[key] != nil
}

// join puts k at the end of its line.
func (ls *lines) join(k *Lock) *waiter {
	w := &waiter{k: k, moved: make(chan struct{}, 1), turn: make(chan struct{}, 1), woken: make(chan answer, 1)}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	n := ls.by[k.ask.keys.lock]
	if n == nil {
		n = &line{}
		if ls.by == nil {
			ls.by = make(map[string]*line)
		}
		ls.by[k.ask.keys.lock] = n
	}
	n.waiters = append(n.waiters, w)
	return w
}

// leave takes w out of its line. If it has got a lock with fences to spare, that
// is there to be passed on. It reports false when w was taken out before, because
// the lock was passed to it.
func (ls *lines) leave(w *waiter, granted bool) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	key := w.k.ask.keys.lock
	n := ls.by[key]
	if n == nil {
		return false
	}
	i := slices.Index(n.waiters, w)
	if i < 0 {
		return false
	}
	n.waiters = slices.Delete(n.waiters, i, i+1)
	if granted && w.k.spare > 0 {
		n.block = w.k
	}
	ls.settle(key, n)
	return true
}

// settle drops a line that is over, or has the first of it look again.
func (ls *lines) settle(key string, n *line) {
	switch {
	case len(n.waiters) > 0:
		select {
		case n.waiters[0].moved <- struct{}{}:
		default:
		}
	case n.block == nil:
		delete(ls.by, key)
	}
}

// saw tells those behind w who is in the way.
func (ls *lines) saw(w *waiter, held *HeldError) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if n := ls.by[w.k.ask.keys.lock]; n != nil {
		n.met = held
	}
}

// freed is told of a lock that ended and was not passed on.
func (ls *lines) freed(k *Lock) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	key := k.ask.keys.lock
	if n := ls.by[key]; n != nil && n.block == k {
		n.block = nil
		ls.settle(key, n)
	}
}

// first reports whether w is to ask, and otherwise whether it is the first of
// the line and only waits for a lock of ours. With late set it waits no more.
func (ls *lines) first(w *waiter, late bool) (asks, waits bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	n := ls.by[w.k.ask.keys.lock]
	if n == nil || len(n.waiters) == 0 || n.waiters[0] != w {
		return false, false
	}
	w.asking = late || n.block == nil
	return w.asking, !w.asking
}

// inTheWay is who holds what w waits for, nil when that is not known.
func (ls *lines) inTheWay(w *waiter) *HeldError {
	ls.mu.Lock()
	var k *Lock
	var met *HeldError
	if n := ls.by[w.k.ask.keys.lock]; n != nil {
		k, met = n.block, n.met
	}
	ls.mu.Unlock()
	if k == nil {
		return met
	}
	s := &k.l.scheduler
	s.Lock()
	id := k.fence.ID // a store may be having it replaced
	s.Unlock()
	return &HeldError{Resource: k.fence.Resource, Label: k.ask.label, TTL: k.Remaining(), FenceID: id}
}

// stand waits in the line, until w is to ask: then both results are zero. turn
// says that the lock was passed to it.
func (l *Locker) stand(ctx context.Context, w *waiter) (turn bool, err error) {
	if met := l.lines.inTheWay(w); met != nil && w.k.met == nil { //nolint:contextcheck // it is the lock's, and derived from ctx
		w.k.met = met
		w.k.tellContended(met) //nolint:contextcheck // it is the lock's, and derived from ctx
	}
	var late <-chan time.Time
	for isLate := false; ; {
		asks, waits := l.lines.first(w, isLate)
		if asks {
			return false, nil
		}
		if waits && late == nil {
			t := time.NewTimer(deferral)
			defer t.Stop()
			late = t.C
		}
		select {
		case <-w.turn:
			return true, nil
		case <-w.moved:
		case <-late:
			isLate = true
		case <-ctx.Done():
			return l.quit(w, ended(ctx)) //nolint:contextcheck // it is the lock's, and derived from ctx
		case <-l.stop:
			return l.quit(w, ErrClosed) //nolint:contextcheck // it is the lock's, and derived from ctx
		}
	}
}

// quit leaves the line, unless the lock was passed on in the same instant.
func (l *Locker) quit(w *waiter, err error) (turn bool, _ error) {
	met := l.lines.inTheWay(w)
	if !l.lines.leave(w, false) {
		return true, nil
	}
	if met != nil {
		w.k.met = met
	}
	return false, err
}

// pass hands the lock, which has just ended for its holder, to the first in the
// line, if there is a fence for it and ample time. Redis is not asked: it goes on
// knowing the holder that it granted the block to.
func (k *Lock) pass() bool {
	ls := &k.l.lines
	ls.mu.Lock()
	defer ls.mu.Unlock()
	key := k.ask.keys.lock
	n := ls.by[key]
	if n == nil || n.block != k || len(n.waiters) == 0 || n.waiters[0].asking {
		return false
	}
	w := n.waiters[0]
	if !w.k.succeed(k) {
		return false
	}
	n.waiters = slices.Delete(n.waiters, 0, 1)
	n.block = nil
	if w.k.spare > 0 {
		n.block = w.k
	}
	w.turn <- struct{}{}
	ls.settle(key, n)
	return true
}

// succeed makes k the next turn of the block that old is of.
func (k *Lock) succeed(old *Lock) bool {
	s := &k.l.scheduler
	s.Lock()
	defer s.Unlock()
	now := s.now()
	e := old.lease
	if s.closed || old.spare < 1 || old.keepLeft() > 0 || old.failing != nil || e.doubtful(now) || e.left(now) < e.ttl/4 {
		return false
	}
	k.fence.ID, k.spare, k.value = old.fence.ID+1, old.spare-1, old.inRedis()
	k.ask.holder, k.ask.label, k.ask.ballot = old.ask.holder, old.ask.label, old.ask.ballot
	k.since = now
	k.begin(e, now)
	return true
}
