package fencedlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/memstore"
	"github.com/fenced-go/fenced/internal/testenv"
)

// harms are what can happen to a node, and how it ends.
var harms = map[string]struct {
	do, undo func(*testing.T, *testenv.Redis)
}{
	"frozen":       {func(t *testing.T, s *testenv.Redis) { t.Helper(); s.Pause(t) }, func(t *testing.T, s *testenv.Redis) { t.Helper(); s.Resume(t) }},
	"killed":       {func(t *testing.T, s *testenv.Redis) { t.Helper(); s.Kill(t) }, func(t *testing.T, s *testenv.Redis) { t.Helper(); s.Start(t) }},
	"cut off":      {func(_ *testing.T, s *testenv.Redis) { s.Proxy.Cut() }, func(_ *testing.T, s *testenv.Redis) { s.Proxy.Heal() }},
	"refusing":     {func(_ *testing.T, s *testenv.Redis) { s.Proxy.Refuse() }, func(_ *testing.T, s *testenv.Redis) { s.Proxy.Heal() }},
	"replies lost": {func(_ *testing.T, s *testenv.Redis) { s.Proxy.CutReplies() }, func(_ *testing.T, s *testenv.Redis) { s.Proxy.Heal() }},
}

// TestTwoOfFiveNodesDoNotMatter harms one and two of five nodes while a lock is
// held: it lives on for several leases, can be released, and acquired anew; with
// a third it is lost.
func TestTwoOfFiveNodesDoNotMatter(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers, clients := several(t, 5)
			opts := &fencedlock.Options{TTL: ttl, NodesPersist: true}
			l, other := quorum(t, clients, opts), quorum(t, clientsOf(t, servers), opts)
			last := int64(0)
			for i, srv := range servers[:2] {
				k := acquire(t, l, "r")
				testenv.Eventually(t, patience, "the spare nodes have it, too", func() bool { return holders(servers[i:], k.Fence()) == 5-i })
				harm.do(t, srv)
				outlive(t, k, 2*ttl)
				if _, err := other.TryAcquire(t.Context(), "r", nil); !errors.Is(err, fencedlock.ErrHeld) {
					t.Errorf("%d harmed: TryAcquire: %v", i+1, err)
				}
				release(t, k)
				next := acquire(t, other, "r")
				if next.Fence().ID <= k.Fence().ID || k.Fence().ID <= last {
					t.Errorf("%d harmed: fences %d, %d, %d", i+1, last, k.Fence().ID, next.Fence().ID)
				}
				last = next.Fence().ID
				release(t, next)
			}
			k := acquire(t, l, "r")
			harm.do(t, servers[2])
			if err := ends(t, k); reason(err) != fencedlock.RenewFailed && reason(err) != fencedlock.Expired {
				t.Errorf("three harmed: the lock ended with %v", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if got, err := other.Acquire(ctx, "r", nil); got != nil || !errors.Is(err, fencedlock.ErrUnavailable) {
				t.Errorf("three harmed: got %v, %v", got, err)
			}
			for _, srv := range servers[:3] {
				harm.undo(t, srv)
			}
			after := acquireSoon(t, other)
			if after.Fence().ID <= k.Fence().ID {
				t.Errorf("fence %d after %d", after.Fence().ID, k.Fence().ID)
			}
			release(t, after)
		})
	}
}

// outlive waits for d, and wants the lock to be held all the time.
func outlive(t *testing.T, k *fencedlock.Lock, d time.Duration) {
	t.Helper()
	select {
	case <-k.Done():
		t.Errorf("the lock was lost: %v", k.Err())
	case <-time.After(d):
	}
}

// ends waits until the lock has ended, and returns why.
func ends(t *testing.T, k *fencedlock.Lock) error {
	t.Helper()
	select {
	case <-k.Done():
	case <-time.After(patience):
		t.Error("the lock has not ended")
	}
	return k.Err()
}

// acquireSoon acquires as soon as enough nodes are back.
func acquireSoon(t *testing.T, l *fencedlock.Locker) (k *fencedlock.Lock) {
	t.Helper()
	var last error
	testenv.Eventually(t, patience, "the quorum is back", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		k, last = l.Acquire(ctx, "r", nil)
		return last == nil
	})
	return k
}

// TestADeadNodeCostsNothing has one of three nodes swallow everything, and wants
// no call to wait for it.
func TestADeadNodeCostsNothing(t *testing.T) {
	t.Parallel()
	const ttl = 20 * time.Second // a fifth of it is more than a second, what a node has at most
	servers, clients := several(t, 3)
	l := quorum(t, clients, &fencedlock.Options{TTL: ttl, NodesPersist: true})
	release(t, acquire(t, l, "warm"))
	servers[1].Proxy.Cut()
	fastest := map[string]time.Duration{}
	timed := func(name string, f func() error) {
		start := time.Now()
		if err := f(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(start); fastest[name] == 0 || took < fastest[name] {
			fastest[name] = took
		}
	}
	for i := range 5 {
		var k *fencedlock.Lock
		timed("Acquire", func() (err error) { k, err = l.Acquire(t.Context(), fmt.Sprint("r", i), nil); return err })
		timed("Renew", func() error { return k.Renew(t.Context()) })
		timed("TryAcquire", func() error {
			if _, err := l.TryAcquire(t.Context(), fmt.Sprint("r", i), nil); !errors.Is(err, fencedlock.ErrHeld) {
				return fmt.Errorf("got %w", err)
			}
			return nil
		})
		timed("Release", func() error { return k.Release(t.Context()) })
	}
	for name, took := range fastest {
		if took > 400*time.Millisecond {
			t.Errorf("%s: %v at best", name, took)
		}
	}
}

// TestUnansweredNodesAreGivenBack: one node accepts without a word, another is
// held by somebody else.
func TestUnansweredNodesAreGivenBack(t *testing.T) {
	t.Parallel()
	servers, clients := several(t, 3)
	l := quorum(t, clients, &fencedlock.Options{TTL: time.Minute, NodesPersist: true})
	release(t, acquire(t, l, "warm"))
	const foreign = "somebody:7:else"
	servers[2].Do(t, "SET", lockKey, foreign)
	servers[1].Proxy.CutReplies()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	k, err := l.Acquire(ctx, "r", nil)
	if k != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, %v", k, err)
	}
	servers[1].Proxy.Heal()
	for _, srv := range servers[:2] {
		testenv.Eventually(t, patience, "it is given back", func() bool { return srv.Do(t, "EXISTS", lockKey) == int64(0) })
	}
	if got := servers[2].Do(t, "GET", lockKey); got != foreign {
		t.Errorf("the other's lock is %v", got)
	}
}

// TestCountersOfFailedAttemptsDoNotLeadBack: nodes whose counters are far apart.
func TestCountersOfFailedAttemptsDoNotLeadBack(t *testing.T) {
	t.Parallel()
	servers, clients := several(t, 3)
	l := quorum(t, clients, nil)
	const high = 8_000_000_000_000_000
	servers[0].Do(t, "SET", counterKey, fmt.Sprint(int64(high)))
	servers[1].Do(t, "SET", counterKey, "1")
	servers[2].Proxy.Refuse()
	first := acquire(t, l, "r")
	if first.Fence().ID <= high {
		t.Errorf("fence %d, a node had %d", first.Fence().ID, int64(high))
	}
	release(t, first)
	servers[2].Proxy.Heal()
	servers[0].Proxy.Refuse()
	second := acquireSoon(t, quorum(t, clientsOf(t, servers), nil)) // knows nothing of the first
	if second.Fence().ID <= first.Fence().ID {
		t.Errorf("fence %d after %d", second.Fence().ID, first.Fence().ID)
	}
	release(t, second)
}

// TestASecondMajorityHasAHigherFence: a node of the first majority comes back
// empty and votes at once, against the rules.
func TestASecondMajorityHasAHigherFence(t *testing.T) {
	t.Parallel()
	servers, clients := several(t, 5)
	store := memstore.New()
	opts := &fencedlock.Options{NodesPersist: true, Stores: []fencedstore.Claimer{store}} // a lie
	a, b := quorum(t, clients, opts), quorum(t, clientsOf(t, servers), opts)
	servers[3].Proxy.Refuse()
	servers[4].Proxy.Refuse()
	first := acquire(t, a, "r")
	servers[2].Kill(t)
	servers[2].Start(t)
	servers[3].Proxy.Heal()
	servers[4].Proxy.Heal()
	second := acquireSoon(t, b)
	if second.Fence().ID <= first.Fence().ID || first.Err() != nil {
		t.Errorf("fence %d after %d; the first: %v", second.Fence().ID, first.Fence().ID, first.Err())
	}
	if err := store.Write(t.Context(), second.Fence(), "key", []byte("second")); err != nil {
		t.Errorf("Write: %v", err)
	}
	if err := store.Write(t.Context(), first.Fence(), "key", []byte("first")); !errors.Is(err, fencedstore.ErrStale) {
		t.Errorf("Write with the older fence: %v", err)
	}
	if err := first.Renew(t.Context()); reason(err) != fencedlock.Taken {
		t.Errorf("Renew of the first: %v", err)
	}
	release(t, second)
}

// TestRestartedNodesDoNotVoteAtOnce is the same by the rules.
func TestRestartedNodesDoNotVoteAtOnce(t *testing.T) {
	t.Parallel()
	servers, clients := several(t, 5)
	opts := &fencedlock.Options{TTL: time.Second}
	a, b := quorum(t, clients, opts), quorum(t, clientsOf(t, servers), opts)
	if _, err := a.Acquire(t.Context(), "r", nil); !errors.Is(err, fencedlock.ErrUnavailable) {
		t.Errorf("on servers that have just started: %v", err)
	}
	if r, err := a.Check(t.Context()); err != nil && !errors.Is(err, fencedlock.ErrUnavailable) || !strings.Contains(r.String(), "votes in") {
		t.Errorf("Check: %v, %v", r, err)
	}
	first := acquireSoon(t, a)
	for _, srv := range servers[:3] {
		srv.Kill(t)
		srv.Start(t)
	}
	_, err := b.Acquire(t.Context(), "r", nil)
	if !errors.Is(err, fencedlock.ErrUnavailable) || errors.Is(err, fencedlock.ErrHeld) {
		t.Errorf("three of five have come back empty: %v", err)
	}
	if err := ends(t, first); err == nil {
		t.Error("the first is still held")
	}
	second := acquireSoon(t, b)
	if second.Fence().ID <= first.Fence().ID {
		t.Errorf("fence %d after %d", second.Fence().ID, first.Fence().ID)
	}
	release(t, second)
}

// TestALossyQuorumBearsANodeThatForgot: with Lossy 1, four of five have to agree.
func TestALossyQuorumBearsANodeThatForgot(t *testing.T) {
	t.Parallel()
	servers, clients := several(t, 5)
	opts := &fencedlock.Options{Lossy: 1}
	a, b := quorum(t, clients, opts), quorum(t, clientsOf(t, servers), opts)
	servers[4].Proxy.Refuse()
	first := acquire(t, a, "r")
	servers[4].Proxy.Heal()
	servers[0].Kill(t)
	servers[0].Start(t)
	if _, err := b.TryAcquire(t.Context(), "r", nil); !errors.Is(err, fencedlock.ErrHeld) {
		t.Errorf("TryAcquire: %v", err)
	}
	release(t, first)
	second := acquireSoon(t, b)
	if second.Fence().ID <= first.Fence().ID {
		t.Errorf("fence %d after %d", second.Fence().ID, first.Fence().ID)
	}
	release(t, second)
}

// TestRenewalsBringBackMissingNodes: a lock that began on three of five nodes
// outlives the end of two of them.
func TestRenewalsBringBackMissingNodes(t *testing.T) {
	t.Parallel()
	servers, clients := several(t, 5)
	l := quorum(t, clients, &fencedlock.Options{TTL: 3 * time.Second, NodesPersist: true})
	servers[3].Proxy.Refuse()
	servers[4].Proxy.Refuse()
	k := acquire(t, l, "r")
	if n := holders(servers, k.Fence()); n != 3 {
		t.Errorf("%d nodes have the lock", n)
	}
	servers[3].Proxy.Heal()
	servers[4].Proxy.Heal()
	testenv.Eventually(t, patience, "all nodes have the lock", func() bool { return holders(servers, k.Fence()) == 5 })
	servers[0].Do(t, "DEL", lockKey) // as a node that was cut off for longer than the TTL
	testenv.Eventually(t, patience, "all nodes have the lock again", func() bool { return holders(servers, k.Fence()) == 5 })
	servers[1].Kill(t)
	servers[2].Kill(t)
	outlive(t, k, 4*time.Second)
	release(t, k)
}

// TestTwoMinoritiesHoldNothing parts five nodes so that each client sees two.
func TestTwoMinoritiesHoldNothing(t *testing.T) {
	t.Parallel()
	servers, _ := several(t, 5)
	opts := &fencedlock.Options{TTL: time.Second, NodesPersist: true}
	proxies := make([][]*testenv.Proxy, 2)
	lockers := make([]*fencedlock.Locker, 2)
	for side := range lockers {
		var clients []redis.UniversalClient
		for i, srv := range servers {
			p, err := testenv.NewProxy(srv.DirectAddr())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = p.Close() })
			if sees := i/2 == side; !sees {
				p.Cut()
			}
			proxies[side], clients = append(proxies[side], p), append(clients, client(t, p.Addr()))
		}
		lockers[side] = quorum(t, clients, opts)
	}
	for side, l := range lockers {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		k, err := l.Acquire(ctx, "r", nil)
		cancel()
		if k != nil || !errors.Is(err, fencedlock.ErrUnavailable) {
			t.Errorf("side %d: got %v, %v", side, k, err)
		}
	}
	last := int64(0)
	for side, l := range lockers {
		for _, p := range proxies[side] {
			p.Heal()
		}
		k := acquireSoon(t, l)
		if k.Fence().ID <= last {
			t.Errorf("fence %d after %d", k.Fence().ID, last)
		}
		last = k.Fence().ID
		release(t, k)
	}
}

// TestClocksOfNodesThatStepDoNotMatter steps the clocks of two of five nodes.
func TestClocksOfNodesThatStepDoNotMatter(t *testing.T) {
	t.Parallel()
	var clocks []*testenv.Clock
	var servers []*testenv.Redis
	for range 5 {
		clock := testenv.NewClock(t)
		clocks, servers = append(clocks, clock), append(servers, testenv.NewRedisWithClock(t, clock))
	}
	const ttl = 2 * time.Second
	opts := &fencedlock.Options{TTL: ttl, NodesPersist: true}
	l, other := quorum(t, clientsOf(t, servers), opts), quorum(t, clientsOf(t, servers), opts)
	last := int64(0)
	for _, ahead := range []time.Duration{10 * time.Minute, -10 * time.Minute, 0} {
		k := acquireSoon(t, l) // a lock that was left on a node ends late if its clock goes back
		if k.Fence().ID <= last {
			t.Errorf("fence %d after %d", k.Fence().ID, last)
		}
		clocks[0].Set(t, ahead)
		clocks[1].Set(t, -ahead)
		if _, err := other.TryAcquire(t.Context(), "r", nil); !errors.Is(err, fencedlock.ErrHeld) {
			t.Errorf("clocks at %v: TryAcquire: %v", ahead, err)
		}
		outlive(t, k, 2*ttl)
		last = k.Fence().ID
		release(t, k)
		next := acquireSoon(t, other)
		if next.Fence().ID <= last {
			t.Errorf("fence %d after %d", next.Fence().ID, last)
		}
		last = next.Fence().ID
		release(t, next)
	}
}

// TestLateRequestsAreHarmless has a node get everything late: a lock was acquired,
// released and acquired by another client before.
func TestLateRequestsAreHarmless(t *testing.T) {
	t.Parallel()
	servers, clients := several(t, 3)
	l, other := quorum(t, clients, nil), quorum(t, clientsOf(t, servers), nil)
	release(t, acquire(t, l, "warm"))
	servers[2].Proxy.CutRequests()
	first := acquire(t, l, "r")
	release(t, first)
	second := acquireSoon(t, other)
	servers[2].Proxy.Heal()
	testenv.Eventually(t, patience, "the late node has the second lock or none", func() bool {
		return holders(servers, first.Fence()) == 0
	})
	if err := second.Renew(t.Context()); err != nil {
		t.Errorf("Renew: %v", err)
	}
	release(t, second)
	third := acquire(t, l, "r")
	if third.Fence().ID <= second.Fence().ID || second.Fence().ID <= first.Fence().ID {
		t.Errorf("fences %d, %d, %d", first.Fence().ID, second.Fence().ID, third.Fence().ID)
	}
	release(t, third)
}

// TestContendersTakeTurnsWhileNodesFail has six processes contend for one lock of
// five nodes, of which one or two are frozen at any time.
func TestContendersTakeTurnsWhileNodesFail(t *testing.T) {
	t.Parallel()
	servers, _ := several(t, 5)
	store := memstore.New()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	var wg sync.WaitGroup
	var inside, last, turns atomic.Int64
	won := make([]*atomic.Int64, 6)
	for i := range won {
		won[i] = new(atomic.Int64)
		l := quorum(t, clientsOf(t, servers), &fencedlock.Options{TTL: 20 * time.Second, NodesPersist: true, Stores: []fencedstore.Claimer{store}})
		wg.Go(func() {
			for ctx.Err() == nil {
				k, err := l.Acquire(ctx, "r", nil)
				if err != nil {
					continue // frozen nodes take a while to be avoided
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d inside", n)
				}
				if prev := last.Swap(k.Fence().ID); prev >= k.Fence().ID {
					t.Errorf("fence %d after %d", k.Fence().ID, prev)
				}
				if err := store.Write(ctx, k.Fence(), "key", []byte("v")); err != nil && ctx.Err() == nil {
					t.Errorf("Write: %v", err)
				}
				turns.Add(1)
				won[i].Add(1)
				inside.Add(-1)
				if err := k.Release(ctx); err != nil && !errors.Is(err, fencedlock.ErrUnavailable) {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
	start := time.Now()
	all := func() bool {
		return !slices.ContainsFunc(won, func(n *atomic.Int64) bool { return n.Load() == 0 })
	}
	for i := 0; ctx.Err() == nil && (time.Since(start) < holdFor(t) || !all()); i++ {
		servers[i%5].Pause(t)
		wait := time.After(150 * time.Millisecond)
		<-wait
		if i > 0 {
			servers[(i-1)%5].Resume(t)
		}
	}
	cancel()
	wg.Wait()
	for _, srv := range servers {
		srv.Resume(t)
	}
	t.Logf("%d turns", turns.Load())
	for i := range won {
		if won[i].Load() == 0 {
			t.Errorf("contender %d never had the lock, of %d turns", i, turns.Load())
		}
	}
}
