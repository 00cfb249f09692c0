package fencedlock

import (
	"context"
	"time"
)

const (
	// maxPoll is how often a waiter asks at least.
	maxPoll = 500 * time.Millisecond
	// firstLease is for how long the release of one holder grants the lock to
	// the next: long enough to hear of it, short if nobody does. The scripts know
	// it too.
	firstLease = 500 * time.Millisecond
	// firstPoll is when the first in the queue asks whether its wake-up was lost.
	firstPoll = 25 * time.Millisecond
)

// obtainWaiting asks, and waits for as long as somebody else has the lock: in
// the queue, where whoever releases the lock grants it to the first.
func (l *Locker) obtainWaiting(ctx context.Context, k *Lock, wait bool) error {
	switch {
	case !wait:
		held, err := l.obtain(ctx, k)
		if held != nil {
			return held
		}
		return err
	case l.opts.Unfair:
		return l.obtainPolling(ctx, k)
	}
	if !l.hears(k.ask.keys.lock) && !l.lines.known(k.ask.keys.lock) {
		held, err := l.obtain(ctx, k)
		if held == nil {
			return err
		}
		k.met = held
	}
	w := l.lines.join(k)
	turn, err := l.stand(ctx, w)
	switch {
	case turn:
		return nil
	case err != nil:
		return l.giveUp(ctx, k, err)
	}
	err = l.obtainQueueing(ctx, w)
	l.lines.leave(w, err == nil)
	return err
}

// obtainQueueing has the first in a line ask, and wait in the queue of Redis.
func (l *Locker) obtainQueueing(ctx context.Context, w *waiter) error {
	k := w.k
	defer l.listen(ctx, w)()
	for polls := 0; ; polls++ {
		held, err := l.obtain(ctx, k)
		if held == nil {
			return err
		}
		k.met = held
		l.lines.saw(w, held)
		g, err := l.rest(ctx, w, k.pollIn(polls))
		if err != nil {
			return l.giveUp(ctx, k, err)
		}
		l.shards.follow(ctx, w)
		if g.fence > held.FenceID {
			k.told = g
		}
		if e, ok := k.firstLease(g); ok {
			k.ask.answer = g
			return l.granted(ctx, k, e)
		}
	}
}

// hears reports that wake-ups for a resource can be told of at once.
func (l *Locker) hears(key string) bool { return l.shards.hears(key) || l.ear.hears() }

// listen has w be told of a grant, until the function that it returns is called.
func (l *Locker) listen(ctx context.Context, w *waiter) (leave func()) {
	if l.shards.enter(ctx, w) {
		return func() { l.shards.leave(w) }
	}
	l.ear.enter(ctx, w)
	return func() { l.ear.leave(w) }
}

// obtainPolling asks at random instants until the lease that is in the way
// ends, and at least twice a second.
func (l *Locker) obtainPolling(ctx context.Context, k *Lock) error {
	for {
		held, err := l.obtain(ctx, k)
		if held == nil {
			return err
		}
		k.met = held
		poll := maxPoll
		if held.TTL >= 0 {
			poll = min(held.TTL, maxPoll)
		}
		if err := l.wait(ctx, time.Millisecond+jitter(poll)); err != nil {
			return l.giveUp(ctx, k, err)
		}
	}
}

// pollIn is after how long a waiter asks again that was not woken. When a
// wake-up is lost, those behind wait for as long as it takes to notice: so the
// first ask soon, and everybody less often the longer they have waited, unless
// what is in the way is a first lease. Whoever is about to be the first also asks
// when the lease in the way ends.
func (k *Lock) pollIn(polls int) time.Duration {
	a := &k.ask.answer
	if a.ttl >= 0 && a.ttl <= firstLease {
		polls = min(polls, 1) // it is going round quickly, or its wake-up was lost
	}
	d := firstPoll * time.Duration(min(a.place, 1000)/8+1) << min(polls, 5)
	d = min(d, maxPoll)
	if a.place <= 1 {
		d = min(d, firstLease/2)
		if a.ttl >= 0 {
			d = min(d, a.ttl)
		}
	}
	if k.l.quorum != nil {
		return time.Millisecond + jitter(d) // nobody is woken, and nobody is first
	}
	return time.Millisecond + d*7/8 + jitter(d/8)
}

// firstLease is the lease that a grant by another holder began. That was after
// the last question was sent to which the answer was that somebody else has the
// lock; when the wake-up came says nothing. ok says that enough of it is left
// to begin to work; else asking once more extends it, and tells whether a
// wake-up that names no later holder than the last answer is an old one.
func (k *Lock) firstLease(g answer) (e lease, ok bool) {
	e = lease{start: k.asked, ttl: min(k.terms.ttl, firstLease)}
	if g.fence <= k.met.FenceID || len(k.terms.stores) > 0 || k.ask.durable.wanted() {
		return e, false // stores and replicas need time, and look at what is left
	}
	now := k.l.now()
	return e, !e.doubtful(now) && e.left(now) >= e.ttl/2
}

// rest waits for a wake-up, for d.
func (l *Locker) rest(ctx context.Context, w *waiter, d time.Duration) (answer, error) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case g := <-w.woken:
		return g, nil
	case <-t.C:
		return answer{}, nil
	case <-ctx.Done():
		return answer{}, ended(ctx)
	case <-l.stop:
		return answer{}, ErrClosed
	}
}
