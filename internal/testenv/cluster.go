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

// AddReplica starts a replica of nodes[master] and waits until it follows and
// every node knows it.
func AddReplica(tb testing.TB, nodes []*Redis, master int) *Redis {
	tb.Helper()
	r := newNode(tb, nil, func(port, proxy int) []string {
		return []string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0",
			"--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", decimal(proxy),
			"--cluster-announce-bus-port", decimal(port + busOffset),
		}
	})
	m := nodes[master]
	id := fmt.Sprint(m.Do(tb, "CLUSTER", "MYID"))
	me := fmt.Sprint(r.Do(tb, "CLUSTER", "MYID"))
	setting, _ := m.Do(tb, "CONFIG", "GET", "cluster-announce-bus-port").([]any)
	bus := fmt.Sprint(setting[1])
	r.Do(tb, "CLUSTER", "MEET", "127.0.0.1", decimal(m.Proxy.port.Number), bus)
	Eventually(tb, readyWithin, "the replica knows its primary", func() bool {
		_, err := r.TryDo("CLUSTER", "REPLICATE", id)
		return err == nil
	})
	Eventually(tb, readyWithin, "the replica follows", func() bool {
		return strings.Contains(fmt.Sprint(r.Do(tb, "INFO", "replication")), "master_link_status:up")
	})
	for _, n := range nodes {
		Eventually(tb, readyWithin, "every node knows the replica", func() bool {
			return strings.Contains(fmt.Sprint(n.Do(tb, "CLUSTER", "REPLICAS", id)), me)
		})
	}
	return r
}

// MoveSlot moves a slot with its keys from one node to another, as resharding
// does, and calls step after each of its steps.
func MoveSlot(tb testing.TB, nodes []*Redis, slot string, from, to int, step func(what string)) {
	tb.Helper()
	src, dst := nodes[from], nodes[to]
	srcID, dstID := fmt.Sprint(src.Do(tb, "CLUSTER", "MYID")), fmt.Sprint(dst.Do(tb, "CLUSTER", "MYID"))
	dst.Do(tb, "CLUSTER", "SETSLOT", slot, "IMPORTING", srcID)
	src.Do(tb, "CLUSTER", "SETSLOT", slot, "MIGRATING", dstID)
	step("before any key has moved")
	keys, _ := src.Do(tb, "CLUSTER", "GETKEYSINSLOT", slot, "1000").([]any)
	host, port, _ := strings.Cut(dst.DirectAddr(), ":")
	for _, k := range keys {
		key := fmt.Sprint(k)
		src.Do(tb, "MIGRATE", host, port, key, "0", "5000")
		step("after " + key + " has moved")
	}
	for _, n := range append([]*Redis{dst, src}, nodes...) {
		n.Do(tb, "CLUSTER", "SETSLOT", slot, "NODE", dstID)
	}
}
