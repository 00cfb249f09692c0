package fencedlock

import (
	"context"
	"errors"
	"fmt"
)

// ErrFenceMismatch says that a forced release named another tenure than the one
// there is. Facts: *FenceMismatchError.
var ErrFenceMismatch = errors.New("fencedlock: another tenure")

// FenceMismatchError is an [ErrFenceMismatch].
type FenceMismatchError struct {
	// Resource is what was to be released.
	Resource string
	// Want is the fence ID that was named.
	Want int64
	// Got is the fence ID of the lock there is, 0 when the resource is free.
	Got int64
	// Label is what its holder calls itself.
	Label string
}

func (e *FenceMismatchError) Error() string {
	s := fmt.Sprintf("fencedlock: %q is not held by fence %d, ", e.Resource, e.Want)
	if e.Got == 0 {
		return s + "it is free"
	}
	s += fmt.Sprintf("it is held by fence %d", e.Got)
	if e.Label != "" {
		s += fmt.Sprintf(" (%s)", e.Label)
	}
	return s
}

// Is makes errors.Is(e, ErrFenceMismatch) true.
func (e *FenceMismatchError) Is(target error) bool { return target == ErrFenceMismatch }

// ForceRelease ends the tenure with the given fence ID although its holder may
// be at work: for operators, who have seen it in [Locker.Inspect] and know that
// it must not go on. When it returns nil, every store of Options.Stores refuses
// what that holder may still send, and the resource is free. The holder's lock
// ends with reason [Forced] at its next renewal or its release.
//
// It works by a tenure of its own: the lock changes hands, gets a fence above
// the old one, the stores claim, and it is released, so that whoever waits is
// next. fenceID makes sure that the tenure to end is the one that was meant: an
// [ErrFenceMismatch] says that the resource is free, or that another tenure has
// begun. Other errors are those of [Locker.Acquire]. If a store could not claim,
// the lock is given back in Redis, at once or soon after, but the store may go on
// to accept the old holder: acquire and release the resource once when the store
// is back.
func (l *Locker) ForceRelease(ctx context.Context, resource string, fenceID int64) error {
	if fenceID <= 0 || fenceID >= maxFence-1 {
		return &ArgumentError{Name: "fenceID", Reason: fmt.Sprintf("is %d, which is no fence of a lock", fenceID)}
	}
	k, err := l.prepare(ctx, resource, nil)
	if err != nil {
		return err
	}
	if err := l.takeOver(ctx, k, fenceID); err != nil {
		return err
	}
	if len(k.terms.stores) > 0 {
		if err := l.claim(ctx, k); err != nil {
			return l.discard(ctx, k, err)
		}
	}
	l.opts.Logger.WarnContext(ctx, "fencedlock: released by force", "fence", k.fence, "label", k.terms.label, "ended", fenceID)
	return k.Release(ctx)
}

// takeOver puts k in the place of the tenure with the given fence ID.
func (l *Locker) takeOver(ctx context.Context, k *Lock, fenceID int64) error {
	resource := k.fence.Resource
	c := call{
		op: opForce, keys: k.ask.keys, forced: forcedKey(k.ask.keys.lock),
		holder: k.ask.holder, label: k.ask.label, ttl: k.ask.ttl, fence: fenceID, ballot: k.ask.ballot,
	}
	if err := l.question(ctx, &c, resource); err != nil {
		k.ran = true
		return l.giveUp(ctx, k, err)
	}
	switch c.answer.verdict {
	case absent:
		return &FenceMismatchError{Resource: resource, Want: fenceID}
	case granted:
	default:
		return &FenceMismatchError{Resource: resource, Want: fenceID, Got: c.answer.fence, Label: c.answer.label}
	}
	k.ask.least = fenceID + 1 // until then the lock has the old fence
	held, err := l.obtain(ctx, k)
	if held != nil {
		return &FenceMismatchError{Resource: resource, Want: fenceID, Got: held.FenceID, Label: held.Label}
	}
	return err
}

// question asks something that can be asked again, some times.
func (l *Locker) question(ctx context.Context, c *call, resource string) error {
	for try := 1; ; try++ {
		l.backend.do(bounded(ctx, callTimeout), c) //nolint:contextcheck // it is derived from ctx
		if asFault(c.err) == nil {
			return l.failure(c.op.String(), resource, c.err)
		}
		err := l.failure(c.op.String(), resource, c.err)
		if ctx.Err() == nil && try == acquireTries {
			return err
		}
		if stopped := l.wait(ctx, backoff(try)); stopped != nil {
			return &abandonedError{op: c.op.String(), resource: resource, errs: []error{stopped, err}}
		}
	}
}

// askWhy looks whether the renewals and releases that found no such lock any more
// did so because of a forced release. That is not part of the renewal: with a second
// key, no lock could be renewed while a Cluster moves its slot.
func (l *Locker) askWhy(ctx context.Context, calls []*call) {
	var gone, why []*call
	for _, c := range calls {
		if c.err == nil && (c.answer.verdict == absent || c.answer.verdict == taken) {
			gone = append(gone, c)
			why = append(why, &call{op: opWhy, forced: forcedKey(c.keys.lock), value: c.value})
		}
	}
	if len(gone) == 0 {
		return
	}
	l.backend.batch(ctx, why)
	for i, c := range why {
		if c.err == nil && c.answer.verdict == forced {
			gone[i].answer.verdict = forced
		}
	}
}
