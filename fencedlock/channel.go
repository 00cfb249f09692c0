package fencedlock

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// quiet is how long a channel may say nothing before it is asked whether it is
// still there, and how long it may take to answer.
const quiet = 3 * time.Second

// redisChannel is a subscription. It reads by itself: the channel that go-redis
// offers drops messages when it is full.
type redisChannel struct {
	sub   *redis.PubSub
	asked bool
}

// wakes tells clients apart. A cluster publishes to all nodes but counts the
// listeners of one; a ring publishes to one that need not be the listener's.
func (b *redisBackend) wakes() hearing {
	switch b.rdb.(type) {
	case *redis.Client:
		return sure
	case *redis.Ring:
		return deaf
	default:
		return unsure
	}
}

func (b *redisBackend) listen(ctx context.Context, name string) (channel, error) {
	sub := b.rdb.Subscribe(ctx)
	err := sub.Subscribe(ctx, name)
	if err == nil {
		_, err = sub.ReceiveTimeout(ctx, callTimeout)
	}
	if err != nil {
		_ = sub.Close()
		return nil, err
	}
	return &redisChannel{sub: sub}, nil
}

func (c *redisChannel) receive() (string, error) {
	ctx := context.Background()
	got, err := c.sub.ReceiveTimeout(ctx, quiet)
	var timeout net.Error
	switch {
	case err == nil:
		c.asked = false
	case errors.As(err, &timeout) && timeout.Timeout() && !c.asked:
		c.asked = true
		return "", c.sub.Ping(ctx)
	default:
		return "", err
	}
	if m, ok := got.(*redis.Message); ok {
		return m.Payload, nil
	}
	return "", nil
}

func (c *redisChannel) close() { _ = c.sub.Close() }
