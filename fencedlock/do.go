package fencedlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/fenced-go/fenced/fencedstore"
)

// Do acquires resource as [Locker.Acquire] does, calls fn, and releases when
// fn has returned, however that happens: also when it panics or calls
// [runtime.Goexit]. fn is not called unless the lock was acquired and every
// store has claimed it.
//
// fn gets the lock's fence and a context made by [Lock.Context] from ctx. It
// should return soon after that context ends. Until it does the lock is renewed
// and kept, even if ctx has ended: work that still runs is still protected.
//
// Do returns the error of fn, joined with that of [Lock.Release]: a lock that
// was lost under fn is an error even if fn saw nothing of it.
func (l *Locker) Do(ctx context.Context, resource string, opts *AcquireOptions, fn func(ctx context.Context, f fencedstore.Fence) error) (err error) {
	if fn == nil {
		return &ArgumentError{Name: "fn", Reason: "is nil"}
	}
	k, err := l.Acquire(ctx, resource, opts)
	if err != nil {
		return err
	}
	work, cancel := k.Context(ctx)
	defer cancel()
	returned := false
	defer func() {
		released := k.Release(ctx)
		switch {
		case !returned && released != nil:
			l.opts.Logger.WarnContext(ctx, "fencedlock: lock not released after a panic", "fence", k.fence, "err", released)
		case err == nil:
			err = released
		case released != nil && !errors.Is(err, released):
			err = fmt.Errorf("%w; %w", err, released)
		}
	}()
	err = fn(work, k.fence)
	returned = true
	return err
}
