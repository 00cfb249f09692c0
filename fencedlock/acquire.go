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
	// pollTries is the same for one who has already waited.
	pollTries = 8
	// minTry is what a try gets when the context leaves less: a short wait
	// means one try, not none.
	minTry = 50 * time.Millisecond
)

// Acquire waits until resource is free, takes it, and has every store claim
// it. ctx bounds the wait and nothing else: the lock outlives it. opts may be
// nil. Those who wait are served in the order of arrival, unless Options.Unfair
// says otherwise.
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
// returns a *[HeldError] at once. It does not overtake: when the resource is free
// and somebody waits for it, the first of those gets it.
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
		_, err = k.look() //nolint:contextcheck // it is the lock's, and derived from ctx
	}
	if err != nil {
		return nil, l.discard(ctx, k, err)
	}
	k.tellAcquired(Acquisition{Waited: l.now().mono - began.mono, Attempts: k.attempts}) //nolint:contextcheck // it is the lock's, and derived from ctx
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
	k := &Lock{l: l, terms: t, parent: ctx}
	k.watched, k.ready = nowhere, nowhere
	k.fence = fencedstore.Fence{Resource: resource, Holder: fencedstore.NewHolder()}
	k.ask = call{
		durable: &l.opts.Durability,
		op:      opAcquire, keys: newKeys(l.opts.Prefix, resource),
		holder: k.fence.Holder, label: t.label, ttl: t.ttl.Milliseconds(),
	}
	if l.quorum != nil {
		if err := l.quorum.accepts(&t); err != nil {
			return nil, err
		}
		k.ask.ballot = newBallot(len(l.quorum.nodes))
	}
	return k, nil
}

// obtain asks for the lock until there is an answer: granted when both results
// are nil.
func (l *Locker) obtain(ctx context.Context, k *Lock) (*HeldError, error) {
	c := &k.ask
	for try := 1; ; try++ {
		sent := l.now()
		k.attempts++
		c.proposal, c.sent = sent.proposal(), sent
		l.backend.do(firstTry(ctx, try), c) //nolint:contextcheck // it is derived from ctx
		if c.err == nil {
			return l.answered(ctx, k, c.sent)
		}
		fault := asFault(c.err)
		if fault == nil {
			return nil, l.refused(ctx, k, c.err)
		}
		k.ran = k.ran || fault.ran
		if try >= k.tries() || ctx.Err() != nil {
			return nil, l.giveUp(ctx, k, l.failure("acquire", k.fence.Resource, c.err))
		}
		if err := l.wait(ctx, min(backoff(try), maxBackoff)); err != nil {
			return nil, l.giveUp(ctx, k, err, l.failure("acquire", k.fence.Resource, c.err))
		}
	}
}

// tries is how often one question is asked. Who has waited for long has more
// patience with a Redis that restarts.
func (k *Lock) tries() int {
	if k.met != nil {
		return pollTries
	}
	return acquireTries
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
		if err := l.opts.Durability.shortfall(k.fence.Resource, a.kept); err != nil {
			k.ran = true
			return nil, l.giveUp(ctx, k, err)
		}
		return nil, l.granted(ctx, k, lease{start: sent, ttl: k.terms.ttl})
	}
	k.asked = sent
	held := &HeldError{Resource: k.fence.Resource, Label: a.label, TTL: a.ttl, FenceID: a.fence}
	if k.met == nil {
		k.tellContended(held) //nolint:contextcheck // it is the lock's, and derived from ctx
	}
	return held, nil
}

// granted starts a lease of the fence in k.ask.
func (l *Locker) granted(ctx context.Context, k *Lock, e lease) error {
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
	now := s.now()
	k.fence.ID = k.ask.answer.fence
	k.value = ""
	if k.since == (instant{}) {
		k.since = now
	}
	k.spare = k.ask.answer.spare
	if k.told.fence == k.fence.ID {
		k.spare = k.told.spare // the answer to a second question does not repeat it
	}
	k.ask.waits, k.paused = false, false
	k.begin(e, now)
	return nil
}

// refused handles an answer that asking again would not change.
func (l *Locker) refused(ctx context.Context, k *Lock, err error) error {
	k.ran = k.ran || k.ask.wrote || errors.Is(err, ErrUnexpectedReply)
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
	if k.ask.waits && !k.ran {
		l.leaveQueue(k)
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
	defer l.lines.freed(k)
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
