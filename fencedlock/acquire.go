package fencedlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

const (
	// acquireTries is how often a question is asked that Redis cannot answer.
	acquireTries = 4
	// minTry is what a try gets when the context leaves less: a short wait
	// means one try, not none.
	minTry = 50 * time.Millisecond
	// maxPoll is how often a waiter asks at least.
	maxPoll = 500 * time.Millisecond
)

// Acquire waits until resource is free, takes it, and has every store claim
// it. ctx bounds the wait and nothing else: the lock outlives it. opts may be
// nil.
//
// When ctx ends first the error matches ctx.Err, its cause, and [ErrHeld] with
// a *[HeldError] if somebody held the resource. A context that has already
// ended sends nothing; one that is about to end tries once. [ErrUnavailable]
// follows after four tries within some seconds. If Redis may have granted the
// lock without our knowing, it is given back; if that could not be confirmed
// the error also matches [fencedstore.ErrUnknownOutcome] and the resource may
// stay locked for one TTL. Other errors: [ErrInvalidArgument], [ErrConfig],
// [ErrClosed], [ErrUnexpectedReply], [ErrLost] when the lease ended before the
// stores had claimed, and whatever a store said. With an error the lock is nil
// and nothing is held.
func (l *Locker) Acquire(ctx context.Context, resource string, opts *AcquireOptions) (*Lock, error) {
	return l.acquire(ctx, resource, opts, true)
}

// TryAcquire is Acquire without the wait: when somebody holds the resource it
// returns a *[HeldError] at once.
func (l *Locker) TryAcquire(ctx context.Context, resource string, opts *AcquireOptions) (*Lock, error) {
	return l.acquire(ctx, resource, opts, false)
}

func (l *Locker) acquire(ctx context.Context, resource string, opts *AcquireOptions, wait bool) (*Lock, error) {
	k, err := l.prepare(ctx, resource, opts)
	if err != nil {
		return nil, err
	}
	began := l.now()
	if err := l.obtainWaiting(ctx, k, wait); err != nil {
		return nil, err
	}
	if len(k.terms.stores) > 0 {
		err = l.claim(ctx, k)
	}
	if err == nil {
		_, err = k.look()
	}
	if err != nil {
		return nil, l.discard(ctx, k, err)
	}
	if l.opts.Hooks.Acquired != nil {
		l.opts.Hooks.Acquired(k.fence, l.now().mono-began.mono)
	}
	return k, nil
}

// prepare checks everything that can be checked before anything is sent.
func (l *Locker) prepare(ctx context.Context, resource string, opts *AcquireOptions) (*Lock, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	if err := fencedstore.ValidateResource(resource); err != nil {
		return nil, &ArgumentError{Name: "resource", Reason: "is refused: " + err.Error(), err: err}
	}
	t, err := l.opts.terms(opts)
	if err != nil {
		return nil, err
	}
	if l.isClosed() {
		return nil, ErrClosed
	}
	if ctx.Err() != nil {
		return nil, &abandonedError{op: "acquire", resource: resource, errs: []error{ended(ctx)}}
	}
	k := &Lock{l: l, terms: t}
	k.index = -1
	k.fence = fencedstore.Fence{Resource: resource, Holder: fencedstore.NewHolder()}
	k.ask = call{
		op: opAcquire, keys: newKeys(l.opts.Prefix, resource),
		holder: k.fence.Holder, label: t.label, ttl: t.ttl.Milliseconds(),
	}
	return k, nil
}

// obtainWaiting polls: at a random instant until the lease that is in the way
// ends, and at least twice a second.
func (l *Locker) obtainWaiting(ctx context.Context, k *Lock, wait bool) error {
	for {
		held, err := l.obtain(ctx, k)
		if err != nil || held == nil {
			return err
		}
		k.met = held
		if !wait {
			return held
		}
		poll := maxPoll
		if held.TTL >= 0 {
			poll = min(held.TTL, maxPoll)
		}
		if err := l.wait(ctx, time.Millisecond+jitter(poll)); err != nil {
			return l.giveUp(ctx, k, err)
		}
	}
}

// obtain asks for the lock until there is an answer: granted when both results
// are nil.
func (l *Locker) obtain(ctx context.Context, k *Lock) (*HeldError, error) {
	c := &k.ask
	for try := 1; ; try++ {
		sent := l.now()
		c.proposal = max(sent.micros(), 0) + 1
		l.backend.do(firstTry(ctx, try), c) //nolint:contextcheck // it is derived from ctx
		if c.err == nil {
			return l.answered(ctx, k, sent)
		}
		fault := asFault(c.err)
		if fault == nil {
			return nil, l.refused(ctx, k, c.err)
		}
		k.ran = k.ran || fault.ran
		if try == acquireTries || ctx.Err() != nil {
			return nil, l.giveUp(ctx, k, l.failure("acquire", k.fence.Resource, c.err))
		}
		if err := l.wait(ctx, backoff(try)); err != nil {
			return nil, l.giveUp(ctx, k, err, l.failure("acquire", k.fence.Resource, c.err))
		}
	}
}

// firstTry bounds one try by ctx, but gives the first one a chance.
func firstTry(ctx context.Context, try int) *callContext {
	c := bounded(ctx, callTimeout)
	if try == 1 && time.Until(c.at) < minTry {
		return detached(ctx, minTry)
	}
	return c
}

func (l *Locker) answered(ctx context.Context, k *Lock, sent instant) (*HeldError, error) {
	a := &k.ask.answer
	if a.verdict == granted {
		return nil, l.granted(ctx, k, sent)
	}
	return &HeldError{Resource: k.fence.Resource, Label: a.label, TTL: a.ttl, FenceID: a.fence}, nil
}

// granted starts the lease.
func (l *Locker) granted(ctx context.Context, k *Lock, sent instant) error {
	s := &l.scheduler
	s.Lock()
	if s.closed {
		s.Unlock()
		k.ran = true
		return l.giveUp(ctx, k, ErrClosed)
	}
	defer s.Unlock()
	if k.err != nil {
		return k.err // lost while its fence was being replaced
	}
	k.fence.ID = k.ask.answer.fence
	if k.since == (instant{}) {
		k.since = sent
	}
	k.paused = false
	k.begin(sent, s.now())
	return nil
}

// refused handles an answer that asking again would not change.
func (l *Locker) refused(ctx context.Context, k *Lock, err error) error {
	k.ran = k.ran || errors.Is(err, ErrUnexpectedReply)
	return l.giveUp(ctx, k, l.failure("acquire", k.fence.Resource, err))
}

// giveUp makes the error of an acquire that ends without a lock, after giving
// back what it may have taken.
func (l *Locker) giveUp(ctx context.Context, k *Lock, errs ...error) error {
	if ctx.Err() != nil && !errors.Is(errs[0], ctx.Err()) {
		errs = append([]error{ended(ctx)}, errs...)
	}
	if ctx.Err() != nil && k.met != nil {
		errs = append(errs, k.met)
	}
	if k.ran && !l.abandon(k) {
		errs = append(errs, fmt.Errorf("it may be locked for %v now: %w", k.terms.ttl, fencedstore.ErrUnknownOutcome))
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return &abandonedError{op: "acquire", resource: k.fence.Resource, errs: errs}
}

// discard gives back a lock that was granted and is of no use.
func (l *Locker) discard(ctx context.Context, k *Lock, err error) error {
	s := &l.scheduler
	s.Lock()
	if k.err == nil {
		k.end(ErrReleased)
	}
	s.Unlock()
	k.ran = true
	return l.giveUp(ctx, k, err)
}

// wait pauses an acquire.
func (l *Locker) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	case <-l.stop:
		return ErrClosed
	}
}

// failure turns what a backend found into what callers get.
func (l *Locker) failure(op, resource string, err error) error {
	var fault *faultError
	var config *ConfigError
	var reply *ReplyError
	switch {
	case errors.As(err, &fault):
		return &UnavailableError{Op: op, Resource: resource, Err: fault.err}
	case errors.As(err, &config):
		config.Op, config.Resource = op, resource
	case errors.As(err, &reply):
		reply.Op, reply.Resource = op, resource
	}
	return err
}
