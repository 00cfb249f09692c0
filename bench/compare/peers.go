package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
)

// The libraries, each as its README shows it, with the TTL of all.

func openRedislock(w *world) (opened, error) {
	rdb := w.client()
	c := redislock.New(rdb)
	acquire := func(ctx context.Context, resource string) (*tenure, error) {
		k, err := c.Obtain(ctx, resource, ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(retry)})
		if err != nil {
			return nil, err
		}
		return &tenure{
			held: func(ctx context.Context) bool {
				left, err := k.TTL(ctx)
				return err == nil && left > 0
			},
			release: func(ctx context.Context) error {
				if err := k.Release(ctx); !errors.Is(err, redislock.ErrLockNotHeld) {
					return err
				}
				return nil
			},
		}, nil
	}
	return opened{acquire: acquire, close: rdb.Close}, nil
}

func openRedsync(w *world) (opened, error) {
	rdb := w.client()
	rs := redsync.New(redsyncpool.NewPool(rdb))
	acquire := func(ctx context.Context, resource string) (*tenure, error) {
		m := rs.NewMutex(resource, redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt), redsync.WithRetryDelay(retry))
		if err := m.LockContext(ctx); err != nil {
			return nil, err
		}
		return &tenure{
			held: func(context.Context) bool { return time.Now().Before(m.Until()) },
			release: func(ctx context.Context) error {
				_, _ = m.UnlockContext(ctx) // it reports a lock that is lost in several ways
				return nil
			},
		}, nil
	}
	return opened{acquire: acquire, close: rdb.Close}, nil
}

// openRueidislock leaves more time for an answer than the README does: with
// its 20 ms one slow answer can make a worker wait for ever on a free lock.
func openRueidislock(w *world) (opened, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		KeyMajority: 1, NoLoopTracking: true, KeyValidity: ttl, TryNextAfter: time.Second,
		ClientOption: rueidis.ClientOption{InitAddress: []string{w.Redis}, ForceSingleClient: true},
	})
	if err != nil {
		return opened{}, err
	}
	acquire := func(ctx context.Context, resource string) (*tenure, error) {
		work, cancel, err := l.WithContext(ctx, resource)
		if err != nil {
			return nil, err
		}
		return &tenure{
			held:    func(context.Context) bool { return work.Err() == nil },
			release: func(context.Context) error { cancel(); return nil },
		}, nil
	}
	return opened{acquire: acquire, close: func() error { l.Close(); return nil }}, nil
}

func openUnguarded(w *world) (opened, error) { return ours(w, nil) }

func openFenced(w *world) (opened, error) { return ours(w, []fencedstore.Claimer{w.store}) }

func ours(w *world, stores []fencedstore.Claimer) (opened, error) {
	rdb := w.client()
	l, err := fencedlock.New(rdb, &fencedlock.Options{TTL: ttl, Stores: stores})
	if err != nil {
		return opened{}, errors.Join(err, rdb.Close())
	}
	acquire := func(ctx context.Context, resource string) (*tenure, error) {
		k, err := l.Acquire(ctx, resource, nil)
		if errors.Is(err, fencedlock.ErrLost) || errors.Is(err, fencedstore.ErrStale) {
			return nil, fmt.Errorf("%w: %w", errBusy, err) // the lease ended before the claim did
		}
		if err != nil {
			return nil, err
		}
		return &tenure{
			fence: k.Fence(),
			held:  func(context.Context) bool { return k.Err() == nil }, //nolint:contextcheck // the context of a log line is the lock's
			release: func(ctx context.Context) error {
				if err := k.Release(ctx); !errors.Is(err, fencedlock.ErrLost) {
					return err
				}
				return nil
			},
		}, nil
	}
	return opened{acquire: acquire, close: func() error { return errors.Join(l.Close(), rdb.Close()) }}, nil
}
