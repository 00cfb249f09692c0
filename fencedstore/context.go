package fencedstore

import "context"

type contextKey struct{}

// NewContext returns a context that carries f. A store that takes its fence
// from the context, such as a repository layer, finds it with [FromContext].
// A fence put into a child context hides that of the parent: a context
// carries one fence. NewContext panics on a nil parent, as package context
// does.
func NewContext(ctx context.Context, f Fence) context.Context {
	return context.WithValue(ctx, contextKey{}, f)
}

// FromContext returns the fence that ctx carries. Without one it is
// [ErrNoFence], with a malformed one [ErrInvalidFence]; a nil ctx carries
// none.
func FromContext(ctx context.Context) (Fence, error) {
	if ctx == nil {
		return Fence{}, ErrNoFence
	}
	f, ok := ctx.Value(contextKey{}).(Fence)
	if !ok {
		return Fence{}, ErrNoFence
	}
	return f, f.Validate()
}
