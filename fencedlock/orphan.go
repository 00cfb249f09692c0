package fencedlock

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// releaseGrace is how long an acquire that gives up waits to learn that what
	// it may have taken was given back.
	releaseGrace = 100 * time.Millisecond
	// orphanLife is for how long a lock is tried to be given back, if its TTL is
	// not shorter.
	orphanLife = time.Minute
	maxOrphans = 10_000
	// secondLook is how long after the first an absent lock is asked for again.
	secondLook = time.Second
	maxBackoff = time.Second
)

// orphan is a lock that may be in Redis and that nobody holds: the answer to
// its acquire was lost, or it was of no use.
type orphan struct {
	call
	resource string
	until    time.Duration // by then it has expired, or we give up
	due      time.Duration // when to ask
	looked   bool          // it was answered once
	gone     chan struct{} // closed when Redis has confirmed
}

// orphanage gives back the orphans of one Locker, on one goroutine whatever
// their number.
type orphanage struct {
	mu      sync.Mutex
	orphans []*orphan
	running bool
}

// abandon gives back what an acquire may have taken. It goes on when its caller
// returns, and reports whether Redis confirmed it before. It does not depend on
// the caller's context, which has probably ended.
func (l *Locker) abandon(k *Lock) bool {
	o := &orphan{
		call:     call{op: opRelease, keys: k.ask.keys, holder: k.ask.holder},
		resource: k.fence.Resource,
		until:    l.now().mono + min(k.terms.ttl, orphanLife),
		gone:     make(chan struct{}),
	}
	if !l.takeIn(o) {
		return false
	}
	grace := time.NewTimer(releaseGrace)
	defer grace.Stop()
	select {
	case <-o.gone:
		return true
	case <-grace.C:
		return false
	}
}

func (l *Locker) takeIn(o *orphan) bool {
	h := &l.orphanage
	h.mu.Lock()
	if len(h.orphans) >= maxOrphans {
		h.mu.Unlock()
		l.warnOrphan(o, nil)
		return false
	}
	h.orphans = append(h.orphans, o)
	start := !h.running
	h.running = true
	h.mu.Unlock()
	if start {
		l.scheduler.spawn(l.giveBackOrphans)
	}
	return true
}

// giveBackOrphans tries until none is left.
func (l *Locker) giveBackOrphans() {
	for try := 1; ; try++ {
		batch, wait := l.nextOrphans()
		switch {
		case len(batch) == 0 && wait == 0:
			return
		case len(batch) == 0:
			try = 0
			pause(l.stop, wait)
			continue
		}
		failed := l.giveBackBatch(batch)
		if failed == nil {
			try = 0
			continue
		}
		if l.isClosed() && try >= releaseTries {
			l.dropOrphans(failed)
			return
		}
		pause(nil, min(backoff(min(try, 10)), maxBackoff))
	}
}

// nextOrphans drops the orphans whose time is over and returns the oldest of
// those to ask for now, or how long to wait for the next. When there is none
// the goroutine is to end.
func (l *Locker) nextOrphans() (batch []*orphan, wait time.Duration) {
	h := &l.orphanage
	h.mu.Lock()
	defer h.mu.Unlock()
	now, closed := l.now().mono, l.isClosed()
	h.orphans = slices.DeleteFunc(h.orphans, func(o *orphan) bool {
		over := now >= o.until
		if over && !o.looked && o.until > 0 {
			l.warnOrphan(o, o.err)
		}
		return over || closed && o.looked
	})
	for _, o := range h.orphans {
		switch {
		case o.due > now:
			wait = o.due - now
		case len(batch) < maxBatch:
			batch = append(batch, o)
		}
	}
	h.running = len(h.orphans) > 0
	return batch, wait
}

// giveBackBatch asks once and removes those that were answered for good. It
// returns the error of one that was not answered.
func (l *Locker) giveBackBatch(batch []*orphan) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	calls := make([]*call, len(batch))
	for i, o := range batch {
		calls[i] = &o.call
	}
	l.backend.batch(ctx, calls)
	h := &l.orphanage
	h.mu.Lock()
	defer h.mu.Unlock()
	var failed error
	for _, o := range batch {
		switch {
		case asFault(o.err) != nil:
			failed = o.err
		case o.err != nil:
			l.warnOrphan(o, o.err)
			o.until = 0
		default:
			o.answered(l.now().mono)
		}
	}
	return failed
}

// answered tells whoever waits. If the lock was not there its acquire may still
// be on its way, so that a second look is taken later.
func (o *orphan) answered(now time.Duration) {
	first := !o.looked
	o.looked, o.due = true, now+secondLook
	if first {
		close(o.gone)
	}
	if o.answer.verdict == released || !first {
		o.until = 0
	}
}

func (l *Locker) dropOrphans(err error) {
	h := &l.orphanage
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.orphans {
		l.warnOrphan(o, err)
	}
	h.orphans, h.running = nil, false
}

func (l *Locker) warnOrphan(o *orphan, err error) {
	l.opts.Logger.Warn("fencedlock: a lock that nobody holds could not be released; it expires by itself",
		"resource", o.resource, "err", err)
}
