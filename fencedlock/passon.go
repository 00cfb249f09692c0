package fencedlock

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// passOn is the last hook of the caller's client: it hands the commands of
// Lockers to a copy of that client and leaves all others alone. Copies for
// several Lockers are alike, so the first one takes all.
type passOn struct{ to *redis.Client }

// DialHook implements [redis.Hook].
func (passOn) DialHook(next redis.DialHook) redis.DialHook { return next }

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
