package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/fenced-go/fenced/fencedlock"
)

// contender waits for a lock that others want, too.
type contender struct {
	// acquire returns the fence, 0 where there is none, and what releases the lock.
	acquire func(ctx context.Context, name string) (int64, func(context.Context) error, error)
	close   func()
}

// contenders are the locks that are compared where there is a queue: as their
// documentation says, with a lease that nobody has to renew.
var contenders = []struct {
	name string
	make func(addr string, w *wire) (contender, error)
}{
	{"bare", contendBare},
	{"fenced", contendFenced},
	{"redislock", contendRedislock},
	{"redsync", contendRedsync},
	{"rueidislock", contendRueidislock},
}

func contend(name, addr string, w *wire) (contender, error) {
	for _, c := range contenders {
		if c.name == name {
			return c.make(addr, w)
		}
	}
	return contender{}, fmt.Errorf("no lock %q", name)
}

func counted(addr string, w *wire) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, Dialer: w.dial})
}

func contendFenced(addr string, w *wire) (contender, error) {
	rdb := counted(addr, w)
	l, err := fencedlock.New(rdb, &fencedlock.Options{TTL: ttl})
	if err != nil {
		return contender{}, err
	}
	return contender{
		acquire: func(ctx context.Context, name string) (int64, func(context.Context) error, error) {
			k, err := l.Acquire(ctx, name, nil)
			if err != nil {
				return 0, nil, err
			}
			return k.Fence().ID, k.Release, nil
		},
		close: func() { _, _ = l.Close(), rdb.Close() },
	}, nil
}

// contendRedislock tries ten times a second, as its README does.
func contendRedislock(addr string, w *wire) (contender, error) {
	rdb := counted(addr, w)
	c := redislock.New(rdb)
	opts := &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
	return contender{
		acquire: func(ctx context.Context, name string) (int64, func(context.Context) error, error) {
			k, err := c.Obtain(ctx, name, ttl, opts)
			if err != nil {
				return 0, nil, err
			}
			return 0, k.Release, nil
		},
		close: func() { _ = rdb.Close() },
	}, nil
}

func contendRedsync(addr string, w *wire) (contender, error) {
	rdb := counted(addr, w)
	rs := redsync.New(redsyncpool.NewPool(rdb))
	return contender{
		acquire: func(ctx context.Context, name string) (int64, func(context.Context) error, error) {
			m := rs.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1<<30))
			if err := m.LockContext(ctx); err != nil {
				return 0, nil, err
			}
			return 0, func(ctx context.Context) error {
				ok, err := m.UnlockContext(ctx)
				if err == nil && !ok {
					err = errNotHeld
				}
				return err
			}, nil
		},
		close: func() { _ = rdb.Close() },
	}, nil
}

func contendRueidislock(addr string, w *wire) (contender, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		KeyMajority: 1, NoLoopTracking: true,
		KeyValidity: ttl, ExtendInterval: ttl / 3, TryNextAfter: time.Second,
		ClientOption: rueidis.ClientOption{
			InitAddress: []string{addr}, ForceSingleClient: true,
			DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return w.dial(ctx, "tcp", addr)
			},
		},
	})
	if err != nil {
		return contender{}, err
	}
	return contender{
		acquire: func(ctx context.Context, name string) (int64, func(context.Context) error, error) {
			_, release, err := l.WithContext(ctx, name)
			if err != nil {
				return 0, nil, errors.Join(errStuck, err)
			}
			return 0, func(context.Context) error { release(); return nil }, nil
		},
		close: l.Close,
	}, nil
}
