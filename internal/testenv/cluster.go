package testenv

import (
	"fmt"
	"strings"
	"testing"
)

// slots is the number of hash slots of a Redis Cluster.
const slots = 16384

// NewRedisCluster starts a Redis Cluster of n masters without replicas, which
// share the slots in order. The nodes announce their proxies, so that clients
// follow redirections through them.
func NewRedisCluster(tb testing.TB, n int) []*Redis {
	tb.Helper()
	nodes := make([]*Redis, n)
	bus := make([]int, n)
	for i := range nodes {
		nodes[i] = newNode(tb, nil, func(port, proxy int) []string {
			bus[i] = port + busOffset
			return []string{
				"--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
				"--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", decimal(proxy),
				"--cluster-announce-bus-port", decimal(bus[i]),
			}
		})
		nodes[i].Do(tb, "CLUSTER", "ADDSLOTSRANGE", decimal(i*slots/n), decimal((i+1)*slots/n-1))
		nodes[i].Do(tb, "CLUSTER", "SET-CONFIG-EPOCH", decimal(i+1))
	}
	for i, a := range nodes {
		for j := range nodes[:i] {
			a.Do(tb, "CLUSTER", "MEET", "127.0.0.1", decimal(nodes[j].Proxy.port.Number), decimal(bus[j]))
		}
	}
	// every node, not the first: one may be seconds behind the others
	for _, r := range nodes {
		Eventually(tb, readyWithin, "the cluster has formed", func() bool {
			info := fmt.Sprint(r.Do(tb, "CLUSTER", "INFO"))
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", n))
		})
	}
	return nodes
}
