package main

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/redis/go-redis/v9"
)

var (
	bareAcquire = redis.NewScript(`
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
return redis.call('INCR', KEYS[2])`)
	bareRelease = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)
)

var errNotHeld = errors.New("the lock is not where it was expected")

// bare is a pair of scripts and nothing else: no renewal, no check of the
// lease, no retry, no recovery of lost data.
func bare(rdb *redis.Client) pair {
	ttl := ttl.Milliseconds()
	return func(ctx context.Context, name string) error {
		token := rand.Text()
		fence, err := bareAcquire.EvalSha(ctx, rdb, []string{name, name + ":fence"}, token, ttl).Int64()
		if err != nil {
			return err
		}
		gone, err := bareRelease.EvalSha(ctx, rdb, []string{name}, token).Int64()
		if err == nil && (fence == 0 || gone == 0) {
			err = errNotHeld
		}
		return err
	}
}

// boxed is bare with the arguments in one place, pointers instead of copies,
// and typed results.
type boxed struct {
	name, counter, token string
	args                 [7]any
}

func bareBoxed(rdb *redis.Client) pair {
	var (
		acquire, release any = bareAcquire.Hash(), bareRelease.Hash()
		one, two         any = 1, 2
		ttl              any = ttl.Milliseconds()
	)
	return func(ctx context.Context, name string) error {
		b := &boxed{name: name, counter: name + ":fence", token: rand.Text()}
		a := append(b.args[:0], "evalsha", acquire, two, &b.name, &b.counter, &b.token, ttl)
		got := redis.NewIntCmd(ctx, a...)
		if err := rdb.Process(ctx, got); err != nil {
			return err
		}
		a = append(b.args[:0], "evalsha", release, one, &b.name, &b.token)
		gone := redis.NewIntCmd(ctx, a...)
		if err := rdb.Process(ctx, gone); err != nil {
			return err
		}
		if got.Val() == 0 || gone.Val() == 0 {
			return errNotHeld
		}
		return nil
	}
}

// load puts the scripts of bare into the server.
func load(ctx context.Context, rdb *redis.Client) error {
	return errors.Join(bareAcquire.Load(ctx, rdb).Err(), bareRelease.Load(ctx, rdb).Err())
}
