package fencedlock_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/internal/testenv"
)

// ownerOf is the node that has the keys of "r", and the others.
func ownerOf(t *testing.T, nodes []*testenv.Redis) int {
	t.Helper()
	return slices.IndexFunc(nodes, func(n *testenv.Redis) bool {
		found, _ := n.Do(t, "KEYS", lockKey).([]any)
		return len(found) > 0
	})
}

// ran is how often the nodes have run a command.
func ran(t *testing.T, command string, nodes ...*testenv.Redis) int {
	t.Helper()
	sum := 0
	for _, n := range nodes {
		stats := fmt.Sprint(n.Do(t, "INFO", "commandstats"))
		if m := regexp.MustCompile(`cmdstat_` + command + `:calls=(\d+)`).FindStringSubmatch(stats); m != nil {
			calls, _ := strconv.Atoi(m[1])
			sum += calls
		}
	}
	return sum
}

func TestClusterTellsTheNodeOfTheKeyAlone(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewRedisCluster(t, 3)
	last := acquire(t, locker(t, cluster(t, nodes), nil), "r")
	owner := nodes[ownerOf(t, nodes)]
	a, b := locker(t, cluster(t, nodes), nil), locker(t, cluster(t, nodes), nil)
	for range 5 {
		wa, wb := wait(t, owner, a), wait(t, owner, b)
		release(t, last)
		first := <-wa
		if first.err != nil {
			t.Fatal(first.err)
		}
		release(t, first.lock)
		second := <-wb
		if second.err != nil || second.lock.Fence().ID <= first.lock.Fence().ID {
			t.Fatalf("%v, %v after %v", second.lock, second.err, first.lock)
		}
		last = second.lock
	}
	if n := ran(t, "spublish", owner); n < 10 {
		t.Errorf("%d sharded wake-ups, want one for each of 10 grants", n)
	}
	if n := ran(t, "publish", nodes...); n > 0 {
		t.Errorf("%d wake-ups to all nodes", n)
	}
	if n := ran(t, "ssubscribe", nodes...); n != 2 {
		t.Errorf("%d channels joined, want one for each Locker", n)
	}
}

// TestDeadWaiterInAClusterIsSkipped has entries of processes that are gone be ahead
// in the queue.
func TestDeadWaiterInAClusterIsSkipped(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewRedisCluster(t, 3)
	k := acquire(t, locker(t, cluster(t, nodes), nil), "r")
	owner := nodes[ownerOf(t, nodes)]
	for i := range 3 {
		owner.Do(t, "RPUSH", queueKey, fmt.Sprintf("dead%d:#nobody%d:30000:dead", i, i))
	}
	w := wait(t, owner, locker(t, cluster(t, nodes), &fencedlock.Options{Label: "alive"}))
	release(t, k)
	if got := fmt.Sprint(owner.Do(t, "GET", lockKey)); !strings.HasSuffix(got, ":alive") {
		t.Errorf("the release granted the lock to %q", got)
	}
	serve(t, k, w)
}

func TestWaiterFollowsASlotThatMoves(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewRedisCluster(t, 3)
	k := acquire(t, locker(t, cluster(t, nodes), nil), "r")
	from := ownerOf(t, nodes)
	to := (from + 1) % len(nodes)
	w := wait(t, nodes[from], locker(t, cluster(t, nodes), nil))
	slot := fmt.Sprint(nodes[0].Do(t, "CLUSTER", "KEYSLOT", lockKey))
	testenv.MoveSlot(t, nodes, slot, from, to, func(string) {})
	testenv.Eventually(t, patience, "it listens at the new node", func() bool { return ran(t, "ssubscribe", nodes[to]) > 0 })
	if queued(t, nodes[to]) != 1 {
		t.Error("it has no place, or more than one")
	}
	release(t, k)
	serve(t, k, w)
	if ran(t, "spublish", nodes[to]) == 0 {
		t.Error("it was not told")
	}
}

func TestWaiterFollowsAConnectionThatBreaks(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewRedisCluster(t, 3)
	k := acquire(t, locker(t, cluster(t, nodes), nil), "r")
	owner := nodes[ownerOf(t, nodes)]
	w := wait(t, owner, locker(t, cluster(t, nodes), nil))
	for i := range 3 {
		owner.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		testenv.Eventually(t, patience, "it listens again", func() bool { return ran(t, "ssubscribe", owner) > i+1 })
	}
	release(t, k)
	serve(t, k, w)
}

// TestClusterUserWithoutShardedChannelsIsWoken has rights as they were enough
// before channels were kept by key.
func TestClusterUserWithoutShardedChannelsIsWoken(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewRedisCluster(t, 3)
	for _, n := range nodes {
		n.Do(t, "ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all", "-ssubscribe", "-spublish")
	}
	login := func(o *redis.ClusterOptions) { o.Username, o.Password = "worker", "secret" }
	k := acquire(t, locker(t, cluster(t, nodes, login), nil), "r")
	owner := nodes[ownerOf(t, nodes)]
	l := locker(t, cluster(t, nodes, login), nil)
	for range 3 {
		w := wait(t, owner, l)
		release(t, k)
		a := <-w
		if a.err != nil {
			t.Fatal(a.err)
		}
		k = a.lock
	}
	if n := ran(t, "publish", owner); n < 3 {
		t.Errorf("%d wake-ups", n)
	}
}
