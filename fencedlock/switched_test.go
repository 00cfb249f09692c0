package fencedlock_test

import (
	"context"
	"net"

	"github.com/redis/go-redis/v9"
)

// switched has a client dial whatever address is in target, as a DNS name does
// that follows a failover.
func switched(target chan string) func(*redis.Options) {
	return func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
			addr := <-target
			target <- addr
			var d net.Dialer
			return d.DialContext(ctx, network, addr)
		}
	}
}
