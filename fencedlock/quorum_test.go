package fencedlock_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/internal/testenv"
)

// five are the servers of a quorum, and a client of each.
func five(t *testing.T) ([]*testenv.Redis, []redis.UniversalClient) {
	t.Helper()
	return several(t, 5)
}

func several(t *testing.T, n int) (servers []*testenv.Redis, clients []redis.UniversalClient) {
	t.Helper()
	for range n {
		srv := testenv.NewRedis(t)
		servers, clients = append(servers, srv), append(clients, client(t, srv.Addr()))
	}
	return servers, clients
}

func quorum(t *testing.T, clients []redis.UniversalClient, opts *fencedlock.Options) *fencedlock.Locker {
	t.Helper()
	l, err := fencedlock.NewQuorum(clients, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestQuorumFirst(t *testing.T) {
	t.Parallel()
	_, clients := five(t)
	l := quorum(t, clients, &fencedlock.Options{NodesPersist: true})
	for range 3 {
		k := acquire(t, l, "r")
		t.Log(k.Fence())
		s, err := l.Inspect(t.Context(), "r")
		t.Log(s, s.Nodes, err)
		if _, err := l.TryAcquire(t.Context(), "r", nil); err == nil {
			t.Error("twice")
		} else {
			t.Log(err)
		}
		if err := k.Renew(t.Context()); err != nil {
			t.Error(err)
		}
		release(t, k)
	}
	rep, err := l.Check(t.Context())
	t.Log(rep, err)
}
