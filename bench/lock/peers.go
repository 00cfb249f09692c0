package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/fenced-go/fenced/fencedlock"
)

// ttl is the lease of every variant, long enough that nobody renews.
const ttl = 10 * time.Second

// pair acquires a free name and releases it.
type pair func(ctx context.Context, name string) error

// fenced is ours; its Locker is closed by the function that it returns.
func fenced(rdb *redis.Client) (pair, func() error, error) {
	l, err := fencedlock.New(rdb, &fencedlock.Options{TTL: ttl})
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, name string) error {
		k, err := l.Acquire(ctx, name, nil)
		if err != nil {
			return err
		}
		return k.Release(ctx)
	}, l.Close, nil
}

func bsm(rdb *redis.Client) pair {
	c := redislock.New(rdb)
	return func(ctx context.Context, name string) error {
		k, err := c.Obtain(ctx, name, ttl, nil)
		if err != nil {
			return err
		}
		return k.Release(ctx)
	}
}

func redsyncPair(rdb *redis.Client) pair {
	rs := redsync.New(redsyncpool.NewPool(rdb))
	return func(ctx context.Context, name string) error {
		m := rs.NewMutex(name, redsync.WithExpiry(ttl))
		if err := m.LockContext(ctx); err != nil {
			return err
		}
		ok, err := m.UnlockContext(ctx)
		if err == nil && !ok {
			err = errNotHeld
		}
		return err
	}
}

// errStuck is about a wait for a free name that did not end.
var errStuck = errors.New("rueidislock waits for a lock that is free")

// rueidisPair uses one key and no tracking of its own writes, which is its
// quickest set-up. A slow answer can make it wait for ever on a free name; the
// generous TryNextAfter makes that unlikely and bound ends it.
func rueidisPair(bound context.Context, addr string) (pair, func() error, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		KeyMajority: 1, NoLoopTracking: true,
		KeyValidity: ttl, ExtendInterval: ttl / 3, TryNextAfter: time.Second,
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true},
	})
	if err != nil {
		return nil, nil, err
	}
	return func(_ context.Context, name string) error {
		_, release, err := l.WithContext(bound, name)
		if err != nil {
			return errors.Join(errStuck, err)
		}
		release()
		return nil
	}, func() error { l.Close(); return nil }, nil
}
