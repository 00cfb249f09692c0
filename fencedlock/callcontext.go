package fencedlock

import (
	"context"
	"time"
)

// callContext bounds a command by a deadline of its own. It costs no timer:
// the client puts the deadline on the socket.
type callContext struct {
	context.Context
	at   time.Time
	done <-chan struct{} // set: the only end; else that of the embedded context
	free bool            // the end of the embedded context does not count
}

// Deadline implements [context.Context].
func (c *callContext) Deadline() (time.Time, bool) { return c.at, true }

// Done implements [context.Context].
func (c *callContext) Done() <-chan struct{} {
	if c.free {
		return c.done
	}
	return c.Context.Done()
}

// Err implements [context.Context].
func (c *callContext) Err() error {
	if !c.free {
		return c.Context.Err()
	}
	select {
	case <-c.done: // blocks when nil, so default is taken
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// firing returns a context whose Done channel fires at its deadline, as that of
// a callContext need not.
func firing(ctx context.Context) (context.Context, context.CancelFunc) {
	if c, ok := ctx.(*callContext); ok {
		return context.WithDeadline(c, c.at.Add(-1)) // earlier, or it would rely on c's own timer
	}
	return ctx, func() {}
}

// bounded returns ctx with a deadline no later than d from now.
func bounded(ctx context.Context, d time.Duration) *callContext {
	at := time.Now().Add(d)
	if end, ok := ctx.Deadline(); ok && end.Before(at) {
		at = end
	}
	return &callContext{Context: ctx, at: at}
}

// detached returns the values of ctx without its end: it ends d from now, or
// when done is closed.
func detached(ctx context.Context, d time.Duration, done <-chan struct{}) *callContext {
	return &callContext{Context: ctx, at: time.Now().Add(d), done: done, free: true}
}

// checkContext refuses a nil context.
func checkContext(ctx context.Context) error {
	if ctx == nil {
		return &ArgumentError{Name: "ctx", Reason: "is nil"}
	}
	return nil
}
