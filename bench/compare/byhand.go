package main

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedstore"
)

// The locks that people write themselves.

// giveBack deletes a key that still holds the token.
var giveBack = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)

// takeFenced runs what redislock's FenceKey does: a token that expires and a
// counter beside it, in one step.
var takeFenced = redis.NewScript(`
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
return redis.call('INCR', KEYS[2])`)

// openGetSet is two commands where there must be one, and a release that does
// not look whose lock it deletes.
func openGetSet(w *world) (opened, error) {
	rdb := w.client()
	try := func(ctx context.Context, key, token string) (int64, error) {
		switch err := rdb.Get(ctx, key).Err(); {
		case err == nil:
			return 0, nil
		case !errors.Is(err, redis.Nil):
			return 0, err
		}
		return 1, rdb.Set(ctx, key, token, ttl).Err()
	}
	release := func(ctx context.Context, key, _ string) error { return rdb.Del(ctx, key).Err() }
	return polled(rdb, try, release), nil
}

func openSetNX(w *world) (opened, error) {
	rdb := w.client()
	try := func(ctx context.Context, key, token string) (int64, error) {
		switch err := rdb.SetArgs(ctx, key, token, redis.SetArgs{Mode: "NX", TTL: ttl}).Err(); {
		case err == nil:
			return 1, nil
		case errors.Is(err, redis.Nil):
			return 0, nil
		default:
			return 0, err
		}
	}
	return polled(rdb, try, giveBackOn(rdb)), nil
}

func openFenceKey(w *world) (opened, error) {
	rdb := w.client()
	try := func(ctx context.Context, key, token string) (int64, error) {
		return takeFenced.Run(ctx, rdb, []string{key, key + ":fence"}, token, ttl.Milliseconds()).Int64()
	}
	return polled(rdb, try, giveBackOn(rdb)), nil
}

func giveBackOn(rdb *redis.Client) func(ctx context.Context, key, token string) error {
	return func(ctx context.Context, key, token string) error {
		return giveBack.Run(ctx, rdb, []string{key}, token).Err()
	}
}

// polled makes a lock of a single try, which returns a fence ID above 0 when it
// has the key. Whether the lock is held is asked with GET.
func polled(
	rdb *redis.Client,
	try func(ctx context.Context, key, token string) (int64, error),
	release func(ctx context.Context, key, token string) error,
) opened {
	acquire := func(ctx context.Context, key string) (*tenure, error) {
		token := rand.Text()
		id, err := try(ctx, key, token)
		for ; err == nil && id == 0; id, err = try(ctx, key, token) {
			if err := wait(ctx, retry); err != nil {
				return nil, err
			}
		}
		if err != nil {
			return nil, err
		}
		return &tenure{
			fence:   fencedstore.Fence{ID: id},
			held:    func(ctx context.Context) bool { return rdb.Get(ctx, key).Val() == token },
			release: func(ctx context.Context) error { return release(ctx, key, token) },
		}, nil
	}
	return opened{acquire: acquire, close: rdb.Close}
}

// wait lets time pass until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
