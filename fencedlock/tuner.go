package fencedlock

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// redisTuner is a connection for sharded channels (from Redis 7 on) to one node.
type redisTuner struct {
	b     *redisBackend
	sub   *redis.PubSub
	asked bool
}

// shardOf is the address of the primary that has the key. A Cluster whose servers
// are too old, or whose user may not, has shown so by an error before.
func (b *redisBackend) shardOf(ctx context.Context, key string) (string, bool) {
	c, ok := b.rdb.(*redis.ClusterClient)
	if !ok || b.unsharded.Load() {
		return "", false
	}
	node, err := c.MasterForKey(ctx, key)
	if err != nil {
		return "", false
	}
	return node.Options().Addr, true
}

func (b *redisBackend) tune(ctx context.Context, key string) (tuner, error) {
	node, err := b.nodeOf(ctx, key)
	if err != nil {
		return nil, err
	}
	return &redisTuner{b: b, sub: node.SSubscribe(ctx)}, nil
}

func (t *redisTuner) join(ctx context.Context, name string) error { return t.sub.SSubscribe(ctx, name) }

func (t *redisTuner) leave(ctx context.Context, name string) error {
	return t.sub.SUnsubscribe(ctx, name)
}

func (t *redisTuner) receive() (heard, error) {
	ctx := context.Background()
	got, err := t.sub.ReceiveTimeout(ctx, quiet)
	var timeout net.Error
	var reply redis.Error
	switch {
	case err == nil:
		t.asked = false
	case errors.As(err, &reply):
		return t.explain(err)
	case errors.As(err, &timeout) && timeout.Timeout() && !t.asked:
		t.asked = true
		return heard{}, t.sub.Ping(ctx)
	default:
		return heard{}, err
	}
	switch m := got.(type) {
	case *redis.Message:
		return heard{text: m.Payload}, nil
	case *redis.Subscription:
		if m.Kind == "ssubscribe" {
			return heard{joined: m.Channel}, nil
		}
		return heard{left: m.Channel}, nil
	}
	return heard{}, nil
}

// explain tells a channel that is elsewhere from channels that cannot be had.
func (t *redisTuner) explain(err error) (heard, error) {
	if asFault(explainServer(err)) != nil {
		return heard{refused: true}, nil //nolint:nilerr // it is what was heard
	}
	t.b.unsharded.Store(true)
	return heard{}, err
}

func (t *redisTuner) close() { _ = t.sub.Close() }
