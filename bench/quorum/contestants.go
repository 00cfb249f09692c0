package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
)

// ttl is the lease of every variant, long enough that nobody renews.
const ttl = 10 * time.Second

// impatient is go-redis with short timeouts.
var impatient = redis.Options{
	DialTimeout: 50 * time.Millisecond, ReadTimeout: 50 * time.Millisecond, WriteTimeout: 50 * time.Millisecond,
	PoolTimeout: 50 * time.Millisecond, MaxRetries: -1, DialerRetries: 1,
}

type (
	// acquire takes a free name.
	acquire func(ctx context.Context, name string) (release, error)
	release func(ctx context.Context) error
)

// fenced is ours; its Locker is closed by the function that it returns.
func fenced(clients []redis.UniversalClient) (acquire, func() error, error) {
	l, err := fencedlock.NewQuorum(clients, &fencedlock.Options{TTL: ttl})
	if err != nil {
		return nil, nil, err
	}
	take := func(ctx context.Context, name string) (release, error) {
		k, err := l.Acquire(ctx, name, nil)
		if err != nil {
			return nil, err
		}
		return k.Release, nil
	}
	return take, l.Close, nil
}

// voting waits until servers vote, which they do not right after their start.
func voting(ctx context.Context, take acquire) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		release, err := take(ctx, "ready")
		if err == nil {
			return release(ctx)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

var errNotHeld = errors.New("the lock is not where it was expected")

func redsynced(clients []redis.UniversalClient, failFast bool) acquire {
	var pools []redsyncredis.Pool
	for _, rdb := range clients {
		pools = append(pools, redsyncpool.NewPool(rdb))
	}
	rs := redsync.New(pools...)
	return func(ctx context.Context, name string) (release, error) {
		m := rs.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithFailFast(failFast))
		if err := m.LockContext(ctx); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			ok, err := m.UnlockContext(ctx)
			if err == nil && !ok {
				err = errNotHeld
			}
			return err
		}, nil
	}
}
