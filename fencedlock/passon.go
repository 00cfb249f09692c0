package fencedlock

import (
	"context"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/redis/go-redis/v9"
)

// passOn is a hook of the caller's client, behind those that were there before:
// it hands the commands of Lockers to a copy of that client and leaves all others
// alone.
type passOn struct {
	to    *redis.Client
	dials *atomic.Uint64 // how many connections were made
}

// passing are the clients that have a passOn, with its count of connections.
// Hooks cannot be removed, and the one of the first Locker serves those that
// follow.
var passing sync.Map // of weak.Pointer[redis.Client] to *atomic.Uint64

// passOnCommands has commands of Lockers on c keep deadlines and not be repeated,
// which are options of a whole client. It returns the count of connections, which
// is raised before a new one is used.
func passOnCommands(c *redis.Client) *atomic.Uint64 {
	key, dials := weak.Make(c), new(atomic.Uint64)
	if known, ok := passing.LoadOrStore(key, dials); ok {
		dials, _ = known.(*atomic.Uint64)
		return dials
	}
	runtime.AddCleanup(c, func(key weak.Pointer[redis.Client]) { passing.Delete(key) }, key)
	own := c.WithTimeout(callTimeout)
	o := own.Options() // the copy's own
	o.ContextTimeoutEnabled = true
	o.MaxRetries = 0
	c.AddHook(passOn{own, dials})
	return dials
}

// DialHook implements [redis.Hook].
func (h passOn) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err == nil {
			h.dials.Add(1)
		}
		return conn, err
	}
}

// ProcessHook implements [redis.Hook].
func (h passOn) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if ctx.Value(oursKey{}) == nil {
			return next(ctx, cmd)
		}
		return h.to.Process(ctx, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (h passOn) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if ctx.Value(oursKey{}) == nil {
			return next(ctx, cmds)
		}
		p := h.to.Pipeline()
		_ = p.BatchProcess(ctx, cmds...)
		_, err := p.Exec(ctx)
		return err
	}
}

type oursKey struct{}

// ours marks the context of a Locker's commands, as every callContext is.
type ours struct{ context.Context }

// Value implements [context.Context].
func (c ours) Value(key any) any {
	if key == (oursKey{}) {
		return oursKey{}
	}
	return c.Context.Value(key)
}
