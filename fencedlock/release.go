package fencedlock

import (
	"context"
	"errors"
	"time"
)

const (
	// releaseTimeout bounds a release, with all its tries.
	releaseTimeout = 3 * time.Second
	releaseTries   = 3
)

// Release ends the lock: first its contexts, then the key in Redis. It does
// not depend on ctx being alive, of which it only uses the values, and takes at
// most three seconds.
//
// It returns nil when Redis confirmed the release, and a *[LostError] when the
// lock had ended before: somebody else may have held the resource in between.
// An [ErrUnavailable] says by when the lock expires by itself; Release may then
// be called again. After any other result it is done: further calls return the
// same and send nothing. Release never ends the lock of a successor.
func (k *Lock) Release(ctx context.Context) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	k.releasing.Lock()
	defer k.releasing.Unlock()
	if k.cleared {
		return k.result
	}
	lost := k.leave()
	err := k.giveBack(ctx)
	switch {
	case lost != nil:
		k.cleared = err == nil
		k.result = lost
		return lost
	case err != nil:
		return err
	}
	k.cleared = true
	if k.result == nil && k.l.opts.Hooks.Released != nil {
		k.l.opts.Hooks.Released(k.fence, k.l.now().mono-k.since.mono)
	}
	return k.result
}

// leave ends the lock on this side, and returns how it was lost if it was.
func (k *Lock) leave() error {
	_, _ = k.look()
	s := &k.l.scheduler
	s.Lock()
	if k.err == nil {
		k.end(ErrReleased)
		s.Unlock()
		k.cancelContexts()
		return nil
	}
	defer s.Unlock()
	if errors.Is(k.err, ErrReleased) {
		return nil // an earlier call could not reach Redis
	}
	return k.err
}

// giveBack removes the key. It sets k.result when the key was not the lock's
// any more.
func (k *Lock) giveBack(ctx context.Context) error {
	c := &k.ask
	c.op = opRelease
	giveUp := k.watchRelease()
	sure, err := k.l.clear(ctx, c, giveUp)
	k.forgetRelease()
	if err != nil {
		err = k.l.failure("release", k.fence.Resource, err)
		if u, ok := errors.AsType[*UnavailableError](err); ok {
			u.ExpiresIn = k.lease.rest(k.l.now())
		}
		return err
	}
	switch {
	case !sure: // an earlier try may have been the one that released it
	case c.answer.verdict == absent:
		k.result = k.lost(Expired)
	case c.answer.verdict == taken:
		k.result = k.lost(Taken)
	}
	return nil
}

// clear removes the key if c.holder has it. When sure is false an earlier try
// may have done so already.
func (l *Locker) clear(ctx context.Context, c *call, giveUp <-chan struct{}) (sure bool, err error) {
	sure = true
	for try := 1; ; try++ {
		l.backend.do(detached(ctx, callTimeout, giveUp), c) //nolint:contextcheck // it is derived from ctx
		fault := asFault(c.err)
		if fault == nil {
			return sure, c.err
		}
		sure = sure && !fault.ran
		if try == releaseTries || !pause(giveUp, backoff(try)) {
			return sure, c.err
		}
	}
}

// watchRelease has the scheduler close the channel it returns when the release
// has taken too long. That takes no timer of its own.
func (k *Lock) watchRelease() <-chan struct{} {
	s := &k.l.scheduler
	s.Lock()
	defer s.Unlock()
	if s.closed {
		return nil
	}
	k.giveUp = make(chan struct{})
	k.giveUpAt = s.now().mono + releaseTimeout
	s.watch(k, k.giveUpAt)
	return k.giveUp
}

// tickRelease is tick for a lock that is being released.
func (k *Lock) tickRelease(now instant) {
	switch {
	case k.giveUp == nil:
	case now.mono >= k.giveUpAt:
		close(k.giveUp)
		k.giveUp = nil
	default:
		k.l.scheduler.watch(k, k.giveUpAt)
	}
}

func (k *Lock) forgetRelease() {
	s := &k.l.scheduler
	s.Lock()
	defer s.Unlock()
	k.giveUp = nil
	s.forget(k)
}

// pause waits for d and reports true, or false when done was closed before.
func pause(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return false
	case <-t.C:
		return true
	}
}

// backoff is how long to wait after the given number of tries that Redis could
// not answer: about 50, 100, 200 ms.
func backoff(tries int) time.Duration {
	d := 25 * time.Millisecond << tries
	return d/2 + jitter(d)
}
