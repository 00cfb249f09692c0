package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
)

const naivePoll = 20 * time.Millisecond

// naiveLock is the lock of many services: GET, and SET if there was nothing. It
// is wrong in more than one way. Two can GET before either SETs; the end deletes
// whatever key is there; and its holder may outlive the TTL without anybody
// noticing, which is what the story shows.
type naiveLock struct {
	rdb *redis.Client
	ttl time.Duration
}

// Do has the signature of fencedlock's, so that the job is the same. There is no
// fence to give it.
func (l *naiveLock) Do(ctx context.Context, resource string, _ *fencedlock.AcquireOptions, fn func(ctx context.Context, f fencedstore.Fence) error) error {
	key := prefix + "naive:" + resource
	for {
		err := l.rdb.Get(ctx, key).Err()
		if errors.Is(err, redis.Nil) {
			break
		}
		if err != nil {
			return err
		}
		select {
		case <-time.After(naivePoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := l.rdb.Set(ctx, key, "locked", l.ttl).Err(); err != nil {
		return err
	}
	defer l.rdb.Del(context.WithoutCancel(ctx), key)
	return fn(ctx, fencedstore.Fence{})
}

// Close does nothing.
func (l *naiveLock) Close() error { return nil }
