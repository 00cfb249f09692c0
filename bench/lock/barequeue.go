package main

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

var (
	// bareWait takes a free lock or queues, and bareGrant hands it to the first in the
	// queue: the shortest scripts for a queue with direct grant. A waiter that dies or
	// misses its message keeps all others waiting for ever.
	bareWait = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('RPUSH', KEYS[3], ARGV[1])
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('INCR', KEYS[2])`)

	bareGrant = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local next = redis.call('LPOP', KEYS[3])
if not next then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], next, 'PX', ARGV[2])
redis.call('PUBLISH', string.sub(next, 1, 26), next .. ' ' .. redis.call('INCR', KEYS[2]))
return 1`)
)

// bareQueue is one process: a token is its channel and 26 more letters.
type bareQueue struct {
	rdb     *redis.Client
	channel string
	mu      sync.Mutex
	waiting map[string]chan string
}

func contendBare(addr string, w *wire) (contender, error) {
	ctx, cancel := context.WithCancel(context.Background())
	q := &bareQueue{rdb: counted(addr, w), channel: rand.Text(), waiting: map[string]chan string{}}
	sub := q.rdb.Subscribe(ctx, q.channel)
	if _, err := sub.Receive(ctx); err != nil {
		cancel()
		return contender{}, err
	}
	var heard sync.WaitGroup
	heard.Go(func() {
		for {
			m, err := sub.ReceiveMessage(ctx)
			if err != nil {
				return
			}
			q.grant(m.Payload)
		}
	})
	return contender{acquire: q.acquire, close: func() {
		cancel()
		_ = sub.Close()
		heard.Wait()
		_ = q.rdb.Close()
	}}, nil
}

func (q *bareQueue) grant(text string) {
	token, fence, _ := strings.Cut(text, " ")
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.waiting[token]; c != nil {
		c <- fence
	}
}

func (q *bareQueue) acquire(ctx context.Context, name string) (int64, func(context.Context) error, error) {
	token := q.channel + rand.Text()
	keys := []string{name, name + ":fence", name + ":queue"}
	granted := make(chan string, 1)
	q.mu.Lock()
	q.waiting[token] = granted
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		delete(q.waiting, token)
		q.mu.Unlock()
	}()
	fence, err := bareWait.Run(ctx, q.rdb, keys, token, ttl.Milliseconds()).Int64()
	if err == nil && fence == 0 {
		select {
		case <-granted:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return 0, nil, err
	}
	return fence, func(ctx context.Context) error {
		n, err := bareGrant.Run(ctx, q.rdb, keys, token, ttl.Milliseconds()).Int64()
		if err == nil && n == 0 {
			err = errNotHeld
		}
		return err
	}, nil
}
