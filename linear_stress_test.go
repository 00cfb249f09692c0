package fenced_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/internal/model"
	"github.com/fenced-go/fenced/internal/testenv"
)

// servers are those of one lock, and what befalls them.
type servers struct {
	nodes  []*testenv.Redis
	clocks []*testenv.Clock
	rnd    *rand.Rand
	faults []fault // that befall them
}

func newServers(t *testing.T, n int) *servers {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := &servers{rnd: rand.New(rand.NewPCG(seed, 0)), faults: slices.Concat(keepingFaults, losingFaults)}
	for range n {
		clock := testenv.NewClock(t)
		s.clocks = append(s.clocks, clock)
		s.nodes = append(s.nodes, testenv.NewRedisWithClock(t, clock))
	}
	return s
}

// farthest is the longest way of a Locker to a server.
const farthest = 10 * time.Millisecond

// open makes a Locker which is nearer to some servers than to others, so that
// those who ask at the same time do not come in the same order everywhere.
func (s *servers) open(t *testing.T, stores []fencedstore.Claimer) *fencedlock.Locker {
	t.Helper()
	var addrs []string
	for _, r := range s.nodes {
		way, err := testenv.NewProxy(r.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = way.Close() })
		way.Delay(time.Duration(s.rnd.Int64N(int64(farthest))))
		addrs = append(addrs, way.Addr())
	}
	return newLocker(t, addrs, stores)
}

// fault befalls one server, until undo.
type fault struct {
	name string
	do   func(t *testing.T, r *testenv.Redis, c *testenv.Clock)
	undo func(t *testing.T, r *testenv.Redis, c *testenv.Clock)
}

// Those after which a server still has its data.
var keepingFaults = []fault{
	{
		"frozen",
		func(t *testing.T, r *testenv.Redis, _ *testenv.Clock) { t.Helper(); r.Pause(t) },
		func(t *testing.T, r *testenv.Redis, _ *testenv.Clock) { t.Helper(); r.Resume(t) },
	},
	{
		"cut off",
		func(_ *testing.T, r *testenv.Redis, _ *testenv.Clock) { r.Proxy.Cut() },
		func(_ *testing.T, r *testenv.Redis, _ *testenv.Clock) { r.Proxy.Heal() },
	},
	{
		"heard by nobody",
		func(_ *testing.T, r *testenv.Redis, _ *testenv.Clock) { r.Proxy.CutReplies() },
		func(_ *testing.T, r *testenv.Redis, _ *testenv.Clock) { r.Proxy.Reset(); r.Proxy.Heal() },
	},
	{
		"slow",
		func(_ *testing.T, r *testenv.Redis, _ *testenv.Clock) { r.Proxy.Delay(20 * time.Millisecond) },
		func(_ *testing.T, r *testenv.Redis, _ *testenv.Clock) { r.Proxy.Heal() },
	},
	{
		"ahead by ten minutes",
		func(t *testing.T, _ *testenv.Redis, c *testenv.Clock) { t.Helper(); c.Set(t, 10*time.Minute) },
		func(t *testing.T, _ *testenv.Redis, c *testenv.Clock) { t.Helper(); c.Set(t, 0) },
	},
	{
		"behind by ten minutes",
		func(t *testing.T, _ *testenv.Redis, c *testenv.Clock) { t.Helper(); c.Set(t, -10*time.Minute) },
		func(t *testing.T, _ *testenv.Redis, c *testenv.Clock) { t.Helper(); c.Set(t, 0) },
	},
}

var losingFaults = []fault{{
	"dead, then empty",
	func(t *testing.T, r *testenv.Redis, _ *testenv.Clock) { t.Helper(); r.Kill(t) },
	func(t *testing.T, r *testenv.Redis, _ *testenv.Clock) { t.Helper(); r.Start(t) },
}}

// harm has faults befall one server or several, at most n, until done.
func (s *servers) harm(t *testing.T, n int, until func()) {
	t.Helper()
	var undo []func()
	var what []string
	for _, i := range s.rnd.Perm(len(s.nodes))[:1+s.rnd.IntN(n)] {
		f := s.faults[s.rnd.IntN(len(s.faults))]
		what = append(what, fmt.Sprintf("%d %s", i, f.name))
		f.do(t, s.nodes[i], s.clocks[i])
		undo = append(undo, func() { f.undo(t, s.nodes[i], s.clocks[i]) })
	}
	t.Logf("servers: %v", what)
	until()
	for _, u := range undo {
		u()
	}
}

// forget has all servers lose everything.
func (s *servers) forget(t *testing.T) {
	t.Helper()
	for _, r := range s.nodes {
		r.Do(t, "FLUSHALL")
	}
}

// episodes runs f once, or again and again for as long as FENCED_TEST_SOAK says.
func episodes(t *testing.T, f func(resource string)) {
	t.Helper()
	length := time.Duration(0)
	if soak := os.Getenv("FENCED_TEST_SOAK"); soak != "" {
		var err error
		if length, err = time.ParseDuration(soak); err != nil {
			t.Fatalf("FENCED_TEST_SOAK: %v", err)
		}
	}
	began := time.Now()
	for i := 0; i == 0 || time.Since(began) < length; i++ {
		f(fmt.Sprintf("r%d", i))
	}
}

// rounds is how many times servers are harmed in an episode.
const rounds = 5

// What the lock promises by itself, without a store to correct it.
func TestFencesOfAQuorumAreUniqueAndRiseWhileAMinorityFails(t *testing.T) {
	t.Parallel()
	s := newServers(t, 5)
	episodes(t, s.contestFences(t))
}

// With the counters of all servers far ahead of the clocks of all callers every
// proposal is made from what another one has heard, so that they often collide.
func TestFencesOfAQuorumAreUniqueAndRiseWithClocksFarBehind(t *testing.T) {
	t.Parallel()
	s := newServers(t, 5)
	s.faults = keepingFaults // a server that forgets needs clocks
	contest := s.contestFences(t)
	episodes(t, func(resource string) {
		ahead := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
		for _, r := range s.nodes {
			r.Do(t, "SET", "fenced:{"+resource+"}:fence", ahead)
		}
		contest(resource)
	})
}

// contestFences returns an episode with nothing but the lock.
func (s *servers) contestFences(t *testing.T) func(resource string) {
	t.Helper()
	return func(resource string) {
		c := startContest(t, resource, nil, s.open)
		for range rounds {
			s.harm(t, 2, func() { c.goesOn(t) })
			c.goesOn(t)
		}
		c.end()
		c.checkTenures(t)
		t.Logf("%d tenures", len(c.tenures))
	}
}

func TestQuorumAndStoreAreLinearizable(t *testing.T) {
	t.Parallel()
	linearizable(t, 5, func(t *testing.T, s *servers, c *contest) {
		t.Helper()
		s.harm(t, 2, func() { c.goesOn(t) })
		s.forget(t)
	})
}

// One server that is down stops everybody: its faults end before they go on.
func TestRedisAndStoreAreLinearizable(t *testing.T) {
	t.Parallel()
	linearizable(t, 1, func(t *testing.T, s *servers, _ *contest) {
		t.Helper()
		s.harm(t, 1, func() {
			began := time.Now()
			testenv.Eventually(t, patience, "the lease has ended", func() bool { return time.Since(began) > ttl })
		})
		s.forget(t)
	})
}

func linearizable(t *testing.T, n int, harm func(t *testing.T, s *servers, c *contest)) {
	t.Helper()
	for name, open := range map[string]func(t *testing.T) variable{"memory": newMemRegister, "Postgres": newPGRegister} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServers(t, n)
			episodes(t, func(resource string) {
				c := startContest(t, resource, open(t), s.open)
				for range rounds {
					harm(t, s, c)
					c.goesOn(t)
				}
				c.end()
				c.comeBack(t)
				c.check(t)
				c.refusesForgeries(t)
			})
		})
	}
}

// refusesForgeries changes single answers of a true history: none of the results
// may pass.
func (h *history) refusesForgeries(t *testing.T) {
	t.Helper()
	for what, forge := range map[string]func(c *call) bool{
		"an accepted stale write": func(c *call) bool {
			return c.in.op == "write" && c.out.replace(stale, done)
		},
		"a refused claim of a newer fence": func(c *call) bool {
			return c.in.op == "claim" && c.out.replace(done, stale)
		},
		"a read of what was overwritten": func(c *call) bool {
			overwritten := c.in.op == "read" && c.out.value != 0
			c.out.value = 0
			return overwritten
		},
	} {
		if got := h.with(t, what, forge).linearizable(); got != porcupine.Illegal {
			t.Errorf("%s: %v, want %v", what, got, porcupine.Illegal)
		}
	}
	twice := append(slices.Clip(h.tenures), h.tenures[0])
	if model.Check(twice) == nil {
		t.Error("a fence issued twice passes")
	}
}
