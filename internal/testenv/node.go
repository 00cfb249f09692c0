package testenv

import (
	"fmt"
	"testing"
)

// newNode starts a local redis-server whose arguments depend on its ports: the
// one it listens on, and the one of its proxy, which it announces to others.
func newNode(tb testing.TB, env []string, args func(port, proxy int) []string) *Redis {
	tb.Helper()
	return newBareNode(tb, env, func(c *child, proxy int) []string {
		return c.redisArgs(args(c.port.Number, proxy))
	})
}

// newBareNode is newNode with nothing added to the arguments.
func newBareNode(tb testing.TB, env []string, args func(c *child, proxy int) []string) *Redis {
	tb.Helper()
	var proxy *Proxy
	s := startFrom(tb, "redis", local{}, func(Provider) (Server, error) {
		return startRedis(env, func(c *child) ([]string, error) {
			var err error
			if proxy, err = NewProxy(c.Addr()); err != nil {
				return nil, err
			}
			tb.Cleanup(func() { _ = proxy.Close() })
			return args(c, proxy.port.Number), nil
		})
	})
	r := &Redis{Proxy: proxy, srv: s}
	tb.Cleanup(func() { stopServer(tb, "redis", s) })
	r.ready(tb)
	return r
}

// Addrs are the addresses of nodes through their proxies.
func Addrs(nodes ...*Redis) []string {
	list := make([]string, len(nodes))
	for i, r := range nodes {
		list[i] = r.Addr()
	}
	return list
}

func decimal(n int) string { return fmt.Sprint(n) }
