package fencedlock

import (
	"context"
	"time"
)

// callContext bounds a command by a deadline of its own. It costs no timer: the
// client puts the deadline on the socket, and its Done does not fire then.
type callContext struct {
	context.Context
	at   time.Time
	free bool // the end of the embedded context does not count
}

// bounded returns ctx with a deadline no later than d from now.
func bounded(ctx context.Context, d time.Duration) *callContext {
	at := time.Now().Add(d)
	if end, ok := ctx.Deadline(); ok && end.Before(at) {
		at = end
	}
	return &callContext{Context: ctx, at: at}
}

// detached returns the values of ctx with a deadline d from now in place of its
// end.
func detached(ctx context.Context, d time.Duration) *callContext {
	return &callContext{Context: ctx, at: time.Now().Add(d), free: true}
}

// Deadline implements [context.Context].
func (c *callContext) Deadline() (time.Time, bool) { return c.at, true }

// Done implements [context.Context].
func (c *callContext) Done() <-chan struct{} {
	if c.free {
		return nil
	}
	return c.Context.Done()
}

// Err implements [context.Context].
func (c *callContext) Err() error {
	if c.free {
		return nil
	}
	return c.Context.Err()
}

// firing returns a context whose Done fires at its deadline, as that of a
// callContext need not.
func firing(ctx context.Context) (context.Context, context.CancelFunc) {
	if c, ok := ctx.(*callContext); ok {
		return context.WithDeadline(c, c.at.Add(-1)) // an equal one would count on c to fire
	}
	return ctx, func() {}
}

// checkContext refuses a nil context.
func checkContext(ctx context.Context) error {
	if ctx == nil {
		return &ArgumentError{Name: "ctx", Reason: "is nil"}
	}
	return nil
}
