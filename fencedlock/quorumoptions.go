package fencedlock

import (
	"fmt"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	minNodes = 3
	maxNodes = 64
)

// single refuses the options of a quorum, for one Redis.
func (o *Options) single(rdb redis.UniversalClient) error {
	switch {
	case o.Lossy != 0:
		return &ArgumentError{Name: "Options.Lossy", Reason: "is for NewQuorum"}
	case o.NodesPersist:
		return &ArgumentError{Name: "Options.NodesPersist", Reason: "is for NewQuorum"}
	}
	return o.Durability.complete(rdb)
}

// among refuses the options of one Redis, for a quorum of n nodes.
func (o *Options) among(n int) error {
	switch {
	case n < minNodes || n > maxNodes:
		return &ArgumentError{Name: "nodes", Reason: fmt.Sprintf("has %d nodes, it must have from %d to %d", n, minNodes, maxNodes)}
	case o.Lossy < 0 || o.Lossy >= n:
		return &ArgumentError{Name: "Options.Lossy", Reason: fmt.Sprintf("is %d, it must be from 0 to %d for %d nodes", o.Lossy, n-1, n)}
	case o.Lossy > 0 && o.NodesPersist:
		return &ArgumentError{Name: "Options.Lossy", Reason: "contradicts Options.NodesPersist"}
	case o.Durability != Durability{}:
		return &ArgumentError{Name: "Options.Durability", Reason: "is for one Redis: a quorum keeps a lock at a majority of its nodes"}
	}
	return nil
}

// majority is how many of n nodes have to agree, so that two majorities still
// share one when lossy of them have forgotten everything in between.
func majority(n, lossy int) int { return (n + lossy + 2) / 2 }

// enough is at how many of n nodes a lock that a majority has granted still keeps
// everybody else from one, also when lossy of them forget it next. Without those
// it is the majority.
func enough(n, lossy int) int { return max(majority(n, 0), n-majority(n, lossy)+1+lossy) }

// quarantine is for how long after its start a node does not vote: its lost locks
// must have ended, and an acquire that counted one of its votes, give or take
// what clocks are off.
func (o *Options) quarantine() time.Duration {
	if o.Lossy > 0 || o.NodesPersist {
		return 0
	}
	return max(o.TTL, callTimeout) + 2*maxClockOff
}

// failoverAddr is what a client that follows sentinels calls its server.
const failoverAddr = "FailoverClient"

// quorumClients are the clients of single servers that the caller's must be.
func quorumClients(nodes []redis.UniversalClient) ([]*redis.Client, error) {
	clients := make([]*redis.Client, len(nodes))
	addrs := map[string]int{}
	for i, n := range nodes {
		name := fmt.Sprintf("nodes[%d]", i)
		if n == nil || reflect.ValueOf(n).Kind() == reflect.Pointer && reflect.ValueOf(n).IsNil() {
			return nil, &ArgumentError{Name: name, Reason: "is nil"}
		}
		c, ok := n.(*redis.Client)
		if !ok {
			return nil, &ArgumentError{Name: name, Reason: fmt.Sprintf("is a %T; a node is one server, a *redis.Client", n)}
		}
		addr := c.Options().Addr
		if addr == failoverAddr {
			return nil, &ArgumentError{Name: name, Reason: "follows sentinels: a node must not be replaced by its replica, which may lack what it has promised"}
		}
		if first, twice := addrs[addr]; twice {
			return nil, &ArgumentError{Name: name, Reason: fmt.Sprintf("is the same server as nodes[%d], %s", first, addr)}
		}
		addrs[addr], clients[i] = i, c
	}
	return clients, nil
}
