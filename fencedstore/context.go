package fencedstore

import (
	"context"
	"time"
)

type contextKey struct{}

// carried is what a context carries of a tenure.
type carried struct {
	fence     Fence
	remaining func() time.Duration // nil: not known
}

// NewContext returns a context that carries f. A store that takes its fence
// from the context, such as a repository layer, finds it with [FromContext].
// A fence put into a child context hides that of the parent: a context
// carries one fence. NewContext panics on a nil parent, as package context
// does.
func NewContext(ctx context.Context, f Fence) context.Context {
	return NewLeaseContext(ctx, f, nil)
}

// NewLeaseContext is [NewContext] for a fence whose lease is known: remaining
// tells, at the moment of the call and from any goroutine, how long the lease
// lasts if it is not renewed, 0 when it is over. A lock sets it; a store bounds
// with it what a paused holder may keep occupied. A nil remaining says that it
// is not known.
func NewLeaseContext(ctx context.Context, f Fence, remaining func() time.Duration) context.Context {
	return context.WithValue(ctx, contextKey{}, carried{f, remaining})
}

// FromContext returns the fence that ctx carries. Without one it is
// [ErrNoFence], with a malformed one [ErrInvalidFence]; a nil ctx carries
// none.
func FromContext(ctx context.Context) (Fence, error) {
	c, ok := fromContext(ctx)
	if !ok {
		return Fence{}, ErrNoFence
	}
	return c.fence, c.fence.Validate()
}

// Remaining returns how long the lease behind the fence in ctx lasts if it is
// not renewed, and whether that is known. It is an estimate for bounding waits,
// never a permission to write: only the store can give that.
func Remaining(ctx context.Context) (left time.Duration, known bool) {
	c, ok := fromContext(ctx)
	if !ok || c.remaining == nil {
		return 0, false
	}
	return c.remaining(), true
}

func fromContext(ctx context.Context) (carried, bool) {
	if ctx == nil {
		return carried{}, false
	}
	c, ok := ctx.Value(contextKey{}).(carried)
	return c, ok
}
