package fencedlock

import (
	"context"
	"errors"
	"time"
)

const (
	// releaseTries is how often a release is tried that Redis cannot answer.
	releaseTries = 3
	// closeTimeout bounds the releases of Close, with all tries.
	closeTimeout = releaseTries * callTimeout
)

// Release ends the lock: first its contexts, then the key in Redis. It does
// not depend on ctx being alive, of which it only uses the values, and gives up
// after three tries of at most a second each.
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
	lost := k.leave() //nolint:contextcheck // it is the lock's, and derived from ctx
	if lost == nil && k.pass() {
		k.cleared = true
		k.tellReleased(k.l.now().mono - k.since.mono) //nolint:contextcheck // it is the lock's, and derived from ctx
		return nil
	}
	err := k.giveBack(ctx)
	k.l.lines.freed(k)
	switch {
	case lost != nil:
		k.cleared = err == nil
		k.result = lost
		return lost
	case err != nil:
		return err
	}
	k.cleared = true
	if k.result == nil {
		k.tellReleased(k.l.now().mono - k.since.mono) //nolint:contextcheck // it is the lock's, and derived from ctx
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
	k.part(c)
	sure, err := k.l.clear(ctx, c)
	if err != nil {
		err = k.l.failure("release", k.fence.Resource, err)
		if u, ok := errors.AsType[*UnavailableError](err); ok {
			u.ExpiresIn = k.expiresIn()
		}
		return err
	}
	if !sure || c.answer.verdict == released {
		return nil // not sure: an earlier try may have been the one that released it
	}
	k.result = k.lost(k.whyGone(ctx, c))
	return nil
}

// whyGone is the reason why the answer to c, a release, was that the lock is gone.
func (k *Lock) whyGone(ctx context.Context, c *call) Reason {
	s := &k.l.scheduler
	s.Lock()
	c.value = k.inRedis()
	s.Unlock()
	k.l.askWhy(detached(ctx, callTimeout), []*call{c}) //nolint:contextcheck // it is derived from ctx
	switch c.answer.verdict {
	case forced:
		return Forced
	case taken:
		return Taken
	default:
		return Expired
	}
}

// clear removes the key if c.holder has it. When sure is false an earlier try
// may have done so already.
func (l *Locker) clear(ctx context.Context, c *call) (sure bool, err error) {
	sure = true
	for try := 1; ; try++ {
		c.proposal = l.now().proposal()
		l.backend.do(detached(ctx, callTimeout), c) //nolint:contextcheck // it is derived from ctx
		fault := asFault(c.err)
		if fault == nil {
			return sure, c.err
		}
		sure = sure && !fault.ran
		if try == releaseTries {
			return sure, c.err
		}
		pause(nil, backoff(try))
	}
}

// expiresIn is by when the key is gone if nothing is sent any more. A renewal
// without an answer may have been the last to extend it.
func (k *Lock) expiresIn() time.Duration {
	if k.answerBy > 0 || k.failing != nil {
		return k.terms.ttl
	}
	return max(time.Millisecond, k.terms.ttl-(k.l.now().mono-k.lease.start.mono))
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
