package fencedlock

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// masters are clients of every server that holds locks: the one, or the
// primaries of a Cluster, or the shards of a Ring.
func (b *redisBackend) masters(ctx context.Context) ([]redis.UniversalClient, error) {
	var mu sync.Mutex
	var nodes []redis.UniversalClient
	add := func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, c)
		return nil
	}
	var err error
	switch c := b.rdb.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, add)
	case *redis.Ring:
		err = c.ForEachShard(ctx, add)
	default:
		return []redis.UniversalClient{b.rdb}, nil
	}
	return nodes, err
}

// scanCount is how many keys a server looks at in one step of a SCAN.
const scanCount = 1000

func (b *redisBackend) scan(ctx context.Context, match string, yield func(keys []string) bool) error {
	nodes, err := b.masters(ctx)
	if err != nil {
		return b.explain(err)
	}
	for _, node := range nodes {
		more, err := b.scanNode(ctx, node, match, yield)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func (b *redisBackend) scanNode(ctx context.Context, node redis.UniversalClient, match string, yield func(keys []string) bool) (more bool, err error) {
	var names []string
	for cursor := uint64(0); ; {
		step, cancel := context.WithTimeout(ours{ctx}, callTimeout)
		names, cursor, err = node.Scan(step, cursor, match, scanCount).Result() //nolint:contextcheck // it is derived from ctx
		cancel()
		switch {
		case err != nil:
			return false, b.explain(err)
		case len(names) > 0 && !yield(names):
			return false, nil
		case cursor == 0:
			return true, nil
		}
	}
}
