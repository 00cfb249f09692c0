package main

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	// incrAcquire is the shortest script that issues a fence. When Redis loses
	// its data the fences begin at 1 again, and its counters stay for ever.
	incrAcquire = redis.NewScript(`
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
return redis.call('INCR', KEYS[2])`)

	// bareAcquire has neither fault: the fence is proposed from the clock. These
	// are the commands that fencedlock runs, without its checks.
	bareAcquire = redis.NewScript(`
if redis.call('GET', KEYS[1]) then return 0 end
local fence, counter = ARGV[3], redis.call('GET', KEYS[2])
if counter and tonumber(counter) >= tonumber(fence) then fence = string.format('%.0f', counter + 1) end
redis.call('SET', KEYS[2], fence, 'PX', 604800000)
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return fence`)

	bareRelease = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)
)

var errNotHeld = errors.New("the lock is not where it was expected")

// incr is a pair of scripts and nothing else: no renewal, no check of the
// lease, no retry, no recovery of lost data.
func incr(rdb *redis.Client) pair {
	return scripted(rdb, incrAcquire, func() []any { return []any{rand.Text(), ttl.Milliseconds()} })
}

// bare is incr with fences from the clock.
func bare(rdb *redis.Client) pair {
	return scripted(rdb, bareAcquire, func() []any {
		return []any{rand.Text(), ttl.Milliseconds(), time.Now().UnixMicro()}
	})
}

func scripted(rdb *redis.Client, acquire *redis.Script, args func() []any) pair {
	return func(ctx context.Context, name string) error {
		args := args()
		fence, err := acquire.EvalSha(ctx, rdb, []string{name, name + ":fence"}, args...).Int64()
		if err != nil {
			return err
		}
		gone, err := bareRelease.EvalSha(ctx, rdb, []string{name}, args[0]).Int64()
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
	fence                int64
	args                 [8]any
}

func bareBoxed(rdb *redis.Client) pair {
	var (
		acquire, release any = bareAcquire.Hash(), bareRelease.Hash()
		one, two         any = 1, 2
		ttl              any = ttl.Milliseconds()
	)
	return func(ctx context.Context, name string) error {
		b := &boxed{name: name, counter: name + ":fence", token: rand.Text(), fence: time.Now().UnixMicro()}
		a := append(b.args[:0], "evalsha", acquire, two, &b.name, &b.counter, &b.token, ttl, &b.fence)
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

// load puts the scripts into the server.
func load(ctx context.Context, rdb *redis.Client) error {
	return errors.Join(
		incrAcquire.Load(ctx, rdb).Err(), bareAcquire.Load(ctx, rdb).Err(), bareRelease.Load(ctx, rdb).Err())
}
