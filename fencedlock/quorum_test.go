package fencedlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/memstore"
	"github.com/fenced-go/fenced/internal/testenv"
)

// several are the servers of a quorum, and a client of each.
func several(tb testing.TB, n int) (servers []*testenv.Redis, clients []redis.UniversalClient) {
	tb.Helper()
	for range n {
		srv := testenv.NewRedis(tb)
		servers, clients = append(servers, srv), append(clients, client(tb, srv.Addr()))
	}
	return servers, clients
}

// clientsOf are clients of their own, as another process has them.
func clientsOf(tb testing.TB, servers []*testenv.Redis) (clients []redis.UniversalClient) {
	tb.Helper()
	for _, srv := range servers {
		clients = append(clients, client(tb, srv.Addr()))
	}
	return clients
}

// quorum returns a Locker of nodes that vote at once, unless opts say otherwise.
func quorum(tb testing.TB, clients []redis.UniversalClient, opts *fencedlock.Options) *fencedlock.Locker {
	tb.Helper()
	if opts == nil {
		opts = &fencedlock.Options{NodesPersist: true}
	}
	l, err := fencedlock.NewQuorum(clients, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

// holders is how many nodes have the lock with that fence.
func holders(servers []*testenv.Redis, f fencedstore.Fence) (n int) {
	for _, srv := range servers {
		value, _ := srv.TryDo("GET", lockKey)
		if s, ok := value.(string); ok && strings.HasPrefix(s, fmt.Sprintf("%s:%d:", f.Holder, f.ID)) {
			n++
		}
	}
	return n
}

func TestQuorumLockIsTheSameLock(t *testing.T) {
	t.Parallel()
	servers, clients := several(t, 5)
	l, other := quorum(t, clients, nil), quorum(t, clientsOf(t, servers), nil)
	last := int64(0)
	for range 5 {
		k := acquire(t, l, "r")
		if k.Fence().ID <= last {
			t.Errorf("fence %d after %d", k.Fence().ID, last)
		}
		last = k.Fence().ID
		_, err := other.TryAcquire(t.Context(), "r", nil)
		if e, ok := errors.AsType[*fencedlock.HeldError](err); !ok || e.FenceID != last || e.Label == "" || e.TTL <= 0 {
			t.Errorf("TryAcquire: %v", err)
		}
		if err := k.Renew(t.Context()); err != nil {
			t.Errorf("Renew: %v", err)
		}
		release(t, k)
	}
	err := other.Do(t.Context(), "r", nil, func(ctx context.Context, f fencedstore.Fence) error {
		if f.ID <= last {
			t.Errorf("fence %d after %d", f.ID, last)
		}
		return ctx.Err()
	})
	if err != nil {
		t.Errorf("Do: %v", err)
	}
	testenv.Eventually(t, patience, "nothing is left", func() bool {
		for _, srv := range servers {
			if n, err := srv.TryDo("EXISTS", lockKey); err != nil || n != int64(0) {
				return false
			}
		}
		return true
	})
}

func TestQuorumRefusesWhatItCannotKeep(t *testing.T) {
	t.Parallel()
	at := func(port int) redis.UniversalClient { return client(t, fmt.Sprintf("127.0.0.1:%d", port)) }
	good := []redis.UniversalClient{at(1), at(2), at(3)}
	var none *redis.Client
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	sentinel := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}})
	t.Cleanup(func() { _, _ = cluster.Close(), sentinel.Close() })
	for name, c := range map[string]struct {
		nodes []redis.UniversalClient
		opts  fencedlock.Options
		word  string
	}{
		"no nodes":           {nil, fencedlock.Options{}, "nodes"},
		"two nodes":          {good[:2], fencedlock.Options{}, "nodes"},
		"nil":                {[]redis.UniversalClient{at(1), nil, at(3)}, fencedlock.Options{}, "nodes[1]"},
		"typed nil":          {[]redis.UniversalClient{at(1), at(2), none}, fencedlock.Options{}, "nodes[2]"},
		"cluster":            {[]redis.UniversalClient{at(1), cluster, at(3)}, fencedlock.Options{}, "nodes[1]"},
		"sentinels":          {[]redis.UniversalClient{at(1), sentinel, at(3)}, fencedlock.Options{}, "nodes[1]"},
		"the same client":    {[]redis.UniversalClient{good[0], good[1], good[0]}, fencedlock.Options{}, "nodes[2]"},
		"the same address":   {[]redis.UniversalClient{at(1), at(2), at(1)}, fencedlock.Options{}, "nodes[2]"},
		"negative loss":      {good, fencedlock.Options{Lossy: -1}, "Lossy"},
		"all may be lost":    {good, fencedlock.Options{Lossy: 3}, "Lossy"},
		"lossy and not":      {good, fencedlock.Options{Lossy: 1, NodesPersist: true}, "Lossy"},
		"replicas":           {good, fencedlock.Options{Durability: fencedlock.Durability{Replicas: 1}}, "Durability"},
		"TTL as with one":    {good, fencedlock.Options{TTL: time.Millisecond}, "TTL"},
		"prefix as with one": {good, fencedlock.Options{Prefix: "a{b"}, "Prefix"},
	} {
		l, err := fencedlock.NewQuorum(c.nodes, &c.opts)
		if l != nil || !errors.Is(err, fencedlock.ErrInvalidArgument) || !strings.Contains(fmt.Sprint(err), c.word) {
			t.Errorf("%s: got %v, %v", name, l, err)
		}
	}
	for name, opts := range map[string]fencedlock.Options{"Lossy": {Lossy: 1}, "NodesPersist": {NodesPersist: true}} {
		if l, err := fencedlock.New(good[0], &opts); l != nil || !errors.Is(err, fencedlock.ErrInvalidArgument) {
			t.Errorf("New with %s: got %v, %v", name, l, err)
		}
	}
	l := quorum(t, good, &fencedlock.Options{TTL: time.Second})
	_, err := l.Acquire(t.Context(), "r", &fencedlock.AcquireOptions{TTL: 2 * time.Second})
	if !errors.Is(err, fencedlock.ErrInvalidArgument) {
		t.Errorf("a lease longer than restarted nodes wait: %v", err)
	}
}

// TestOneServerUnderTwoNamesIsRefused reaches one of three servers by two
// addresses.
func TestOneServerUnderTwoNamesIsRefused(t *testing.T) {
	t.Parallel()
	servers, clients := several(t, 2)
	second, err := testenv.NewProxy(servers[0].DirectAddr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = second.Close() })
	servers[1].Proxy.Refuse() // the two alone would be a majority
	l := quorum(t, append(clients, client(t, second.Addr())), nil)
	_, err = l.Acquire(t.Context(), "r", nil)
	if !errors.Is(err, fencedlock.ErrConfig) && !errors.Is(err, fencedlock.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "are one") {
		t.Errorf("Acquire: %v", err)
	}
	if r, _ := l.Check(t.Context()); r.Worst() != fencedlock.Critical {
		t.Errorf("Check: %v", r)
	}
}

func TestMajorityIsOfTheConfiguredNodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ nodes, lossy, need int }{{3, 0, 2}, {4, 0, 3}, {5, 0, 3}, {6, 0, 4}, {3, 1, 3}, {3, 2, 3}, {5, 1, 4}, {5, 2, 4}, {5, 4, 5}} {
		servers, clients := several(t, c.nodes)
		for _, srv := range servers[c.need:] {
			srv.Proxy.Refuse() // before the Locker is made
		}
		l := quorum(t, clients, &fencedlock.Options{Lossy: c.lossy, NodesPersist: c.lossy == 0})
		k, err := l.Acquire(t.Context(), "r", nil)
		if err != nil {
			t.Fatalf("%d of %d nodes, %d lossy: %v", c.need, c.nodes, c.lossy, err)
		}
		release(t, k)
		servers[c.need-1].Proxy.Refuse()
		k, err = l.Acquire(t.Context(), "r", nil)
		e, ok := errors.AsType[*fencedlock.QuorumError](err)
		if k != nil || !errors.Is(err, fencedlock.ErrUnavailable) || !ok || e.Need != c.need || e.Of != c.nodes || len(e.Nodes) != c.nodes-c.need+1 {
			t.Errorf("%d of %d nodes, %d lossy: got %v, %v", c.need-1, c.nodes, c.lossy, k, err)
		}
		for _, srv := range servers {
			testenv.Eventually(t, patience, "what was accepted is taken back", func() bool { return srv.Do(t, "EXISTS", lockKey) == int64(0) })
		}
	}
}

func TestQuorumClaimsAndHealsLikeOneRedis(t *testing.T) {
	t.Parallel()
	servers, clients := several(t, 3)
	store := memstore.New()
	l := quorum(t, clients, &fencedlock.Options{NodesPersist: true, Stores: []fencedstore.Claimer{store}})
	future := fencedstore.Fence{Resource: "r", ID: 9_000_000_000_000_000, Holder: fencedstore.NewHolder()}
	if err := store.Claim(t.Context(), future); err != nil {
		t.Fatal(err)
	}
	k := acquire(t, l, "r")
	if k.Fence().ID <= future.ID {
		t.Errorf("fence %d, the store knows %d", k.Fence().ID, future.ID)
	}
	if err := store.Write(t.Context(), k.Fence(), "key", []byte("v")); err != nil {
		t.Errorf("Write: %v", err)
	}
	if err := k.Renew(t.Context()); err != nil {
		t.Errorf("Renew: %v", err)
	}
	release(t, k)
	for _, srv := range servers {
		srv.Do(t, "FLUSHALL")
	}
	next := acquire(t, l, "r")
	if next.Fence().ID <= k.Fence().ID {
		t.Errorf("fence %d after %d and the loss of everything", next.Fence().ID, k.Fence().ID)
	}
	release(t, next)
}

func TestQuorumInspectsAndForcesByMajority(t *testing.T) {
	t.Parallel()
	servers, clients := several(t, 5)
	l, admin := quorum(t, clients, nil), quorum(t, clientsOf(t, servers), nil)
	k := acquire(t, l, "r")
	servers[4].Proxy.Refuse()
	s, err := admin.Inspect(t.Context(), "r")
	if err != nil || !s.Held || s.FenceID != k.Fence().ID || s.TTL <= 0 || len(s.Nodes) != 5 {
		t.Errorf("Inspect: %+v, %v", s, err)
	}
	for i, n := range s.Nodes {
		if n.Node != servers[i].Addr() || (n.Err != nil) != (i == 4) || n.Err == nil && n.Held && n.FenceID != k.Fence().ID {
			t.Errorf("node %d: %+v", i, n)
		}
	}
	found := 0
	for s, err := range admin.List(t.Context(), "") {
		if found++; err != nil || s.Resource != "r" || s.FenceID != k.Fence().ID {
			t.Errorf("List: %v, %v", s, err)
		}
	}
	if found != 1 {
		t.Errorf("List found %d locks", found)
	}
	var mismatch *fencedlock.FenceMismatchError
	if err := admin.ForceRelease(t.Context(), "r", k.Fence().ID-1); !errors.As(err, &mismatch) || mismatch.Got != k.Fence().ID {
		t.Errorf("ForceRelease of another tenure: %v", err)
	}
	if err := k.Renew(t.Context()); err != nil {
		t.Errorf("the lock has suffered: %v", err)
	}
	if err := admin.ForceRelease(t.Context(), "r", k.Fence().ID); err != nil {
		t.Errorf("ForceRelease: %v", err)
	}
	if err := k.Renew(t.Context()); reason(err) != fencedlock.Forced {
		t.Errorf("the old holder: %v", err)
	}
	next := acquire(t, l, "r")
	if next.Fence().ID <= k.Fence().ID {
		t.Errorf("fence %d after %d", next.Fence().ID, k.Fence().ID)
	}
	release(t, next)
	if err := admin.ForceRelease(t.Context(), "r", next.Fence().ID); !errors.As(err, &mismatch) || mismatch.Got != 0 {
		t.Errorf("ForceRelease of a free resource: %v", err)
	}
	if s, err := admin.Inspect(t.Context(), "r"); err != nil || s.Held || s.Newest < next.Fence().ID {
		t.Errorf("Inspect: %+v, %v", s, err)
	}
}

func TestQuorumKeepsForAtAMajority(t *testing.T) {
	t.Parallel()
	servers, clients := several(t, 3)
	l, other := quorum(t, clients, nil), quorum(t, clientsOf(t, servers), nil)
	k, err := l.Acquire(t.Context(), "r", &fencedlock.AcquireOptions{KeepFor: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	release(t, k)
	_, err = other.TryAcquire(t.Context(), "r", nil)
	if held, ok := errors.AsType[*fencedlock.HeldError](err); !ok || held.TTL < fencedlock.DefaultTTL || held.TTL > time.Minute {
		t.Errorf("TryAcquire: %v", err)
	}
}

func TestQuorumNeedsTheRightToInfo(t *testing.T) {
	t.Parallel()
	servers, _ := several(t, 3)
	var with, without []redis.UniversalClient
	for _, srv := range servers {
		args := documented(t, "worker", "voter", "word", "fenced:*")
		srv.Do(t, args...)
		without = append(without, client(t, srv.Addr(), func(o *redis.Options) { o.Username, o.Password = "voter", "word" }))
		srv.Do(t, append(documented(t, "worker", "worker", "secret", "fenced:*"), "+info")...)
		with = append(with, client(t, srv.Addr(), func(o *redis.Options) { o.Username, o.Password = "worker", "secret" }))
	}
	_, err := quorum(t, without, nil).Acquire(t.Context(), "r", nil)
	if !errors.Is(err, fencedlock.ErrConfig) || !strings.Contains(fmt.Sprint(err), "info") {
		t.Errorf("without info: %v", err)
	}
	l := quorum(t, with, nil)
	k := acquire(t, l, "r")
	if err := k.Renew(t.Context()); err != nil {
		t.Errorf("Renew: %v", err)
	}
	if _, err := l.Inspect(t.Context(), "r"); err != nil {
		t.Errorf("Inspect: %v", err)
	}
	release(t, k)
}
