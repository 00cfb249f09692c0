package fencedlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/internal/testenv"
)

// trips counts the round trips of a client.
type trips struct{ single, shared atomic.Int64 }

func (c *trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { c.single.Add(1); return next(ctx, cmd) }
}

func (c *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { c.shared.Add(1); return next(ctx, cmds) }
}

func sharing(t *testing.T, srv *testenv.Redis) (*redisBackend, *trips) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	hook := &trips{}
	rdb.AddHook(hook)
	return answering(t, rdb), hook
}

// answering returns a backend that knows that its Redis answers.
func answering(t *testing.T, rdb redis.UniversalClient) *redisBackend {
	t.Helper()
	b := newRedisBackend(rdb)
	c := question(-1)
	b.do(bounded(t.Context(), time.Minute), c)
	if c.err != nil {
		t.Fatal(c.err)
	}
	return b
}

func question(i int) *call {
	return &call{
		op: opAcquire, keys: newKeys("t:", fmt.Sprint(i)), holder: fmt.Sprint("holder", i), ttl: 60_000, proposal: 100,
	}
}

func TestManyCallersShareRoundTrips(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	b, n := sharing(t, srv)
	srv.Do(t, "SCRIPT", "FLUSH") // each finds that its script is missing
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			c := question(i)
			b.do(bounded(t.Context(), time.Minute), c)
			if want := (answer{verdict: granted, fence: 100}); c.err != nil || c.answer != want {
				t.Errorf("%d: got %+v, %v", i, c.answer, c.err)
			}
			c.op = opRelease
			b.do(bounded(t.Context(), time.Minute), c)
			if c.err != nil || c.answer.verdict != released {
				t.Errorf("%d: got %+v, %v", i, c.answer, c.err)
			}
		})
	}
	wg.Wait()
	if n.shared.Load() == 0 || b.combiner.busy != 0 || len(b.combiner.waiting) != 0 {
		t.Errorf("%d shared round trips, %d alone; %d slots busy", n.shared.Load(), n.single.Load(), b.combiner.busy)
	}
	before := n.shared.Load()
	for i := range 100 {
		b.do(bounded(t.Context(), time.Minute), question(i))
	}
	if n.shared.Load() != before {
		t.Error("a lone caller shared a round trip")
	}
}

// TestDeadlineOfOneDoesNotFailOthers has callers with all kinds of patience meet
// a server that stops for a while.
func TestDeadlineOfOneDoesNotFailOthers(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	b, _ := sharing(t, srv)
	srv.Proxy.Cut()
	var wg sync.WaitGroup
	cancelled, cancel := context.WithCancel(t.Context())
	defer cancel()
	left := make(chan error, 60)
	for i := range 30 {
		wg.Go(func() {
			c := question(i)
			b.do(bounded(t.Context(), time.Minute), c)
			if c.err != nil {
				t.Errorf("patient %d: %v", i, c.err)
			}
		})
	}
	testenv.Eventually(t, time.Minute, "the slots are busy", func() bool {
		b.combiner.mu.Lock()
		defer b.combiner.mu.Unlock()
		return len(b.combiner.waiting) > 20
	})
	for i := range 30 {
		wg.Go(func() {
			c := question(100 + i)
			b.do(bounded(t.Context(), 50*time.Millisecond), c)
			left <- c.err
		})
		wg.Go(func() {
			c := question(200 + i)
			b.do(bounded(cancelled, time.Minute), c) //nolint:contextcheck // callContext is derived from ctx
			left <- c.err
		})
	}
	for i := range 60 {
		if i == 30 { // the impatient have left by themselves
			cancel()
		}
		err := <-left
		if f := asFault(err); f == nil || f.ran || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want one that was not sent", err)
		}
	}
	srv.Proxy.Heal()
	wg.Wait()
	if b.combiner.busy != 0 || len(b.combiner.waiting) != 0 {
		t.Errorf("%d slots busy, %d waiting", b.combiner.busy, len(b.combiner.waiting))
	}
}

// TestSenderWhoseTimeIsOverLeavesNoSignalBehind has riders be made senders in the
// instant in which their time is over: who gets the rider next would take a signal
// that is left for an answer.
func TestSenderWhoseTimeIsOverLeavesNoSignalBehind(t *testing.T) {
	t.Parallel()
	for range 100 { // either may be noticed first
		r, _ := riders.Get().(*rider)
		m := &combiner{busy: 1, waiting: []*rider{r}}
		m.next()
		err := m.wait(t.Context(), r) // its time has been over for long
		if err != nil || r.batch == nil || len(r.done) > 0 {
			t.Fatalf("%v, batch %v, %d signals left", err, r.batch, len(r.done))
		}
	}
}

// TestSlotsComeBackFromASilentServer has every round trip end by its deadline.
func TestSlotsComeBackFromASilentServer(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	b, _ := sharing(t, srv)
	srv.Proxy.Cut()
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			c := question(i)
			b.do(bounded(t.Context(), 300*time.Millisecond), c)
			if asFault(c.err) == nil {
				t.Errorf("%d: %v", i, c.err)
			}
		})
	}
	wg.Wait()
	srv.Proxy.Heal()
	c := question(1000)
	b.do(bounded(t.Context(), time.Minute), c)
	if c.err != nil || b.combiner.busy != 0 {
		t.Errorf("%v; %d slots busy", c.err, b.combiner.busy)
	}
}

// inCluster is a backend over three nodes, and the trips of its client.
func inCluster(t *testing.T) (*redisBackend, []*testenv.Redis, *trips) {
	t.Helper()
	nodes := testenv.NewRedisCluster(t, 3)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testenv.Addrs(nodes...)})
	t.Cleanup(func() { _ = rdb.Close() })
	hook := &trips{}
	rdb.AddHook(hook)
	return answering(t, rdb), nodes, hook
}

// busy are the slots of all nodes that are taken, and those who wait for one.
func busy(b *redisBackend) (slots int) {
	b.byNode.Range(func(_, v any) bool {
		m, _ := v.(*combiner)
		m.mu.Lock()
		defer m.mu.Unlock()
		slots += m.busy + len(m.waiting)
		return true
	})
	return slots
}

func TestManyCallersShareRoundTripsToEachNode(t *testing.T) {
	t.Parallel()
	b, _, n := inCluster(t)
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			for _, o := range []op{opAcquire, opRelease} {
				c := question(i)
				c.op = o
				b.do(bounded(t.Context(), time.Minute), c)
				if c.err != nil || c.answer.verdict != granted && c.answer.verdict != released {
					t.Errorf("%d: %v: got %+v, %v", i, o, c.answer, c.err)
				}
			}
		})
	}
	wg.Wait()
	if n.shared.Load() == 0 || n.single.Load()+n.shared.Load() > 700 {
		t.Errorf("%d shared round trips, %d alone, for 1000 commands", n.shared.Load(), n.single.Load())
	}
	if busy(b) != 0 {
		t.Errorf("%d slots busy or waited for", busy(b))
	}
}

// TestSilentNodeHoldsUpNobodyElse has one node of three answer nothing.
func TestSilentNodeHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	b, nodes, _ := inCluster(t)
	silent := nodes[0]
	for _, n := range nodes {
		n.Do(t, "CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	silent.Proxy.Cut()
	var wg sync.WaitGroup
	var served, failed atomic.Int64
	for i := range 300 {
		c := question(i)
		server, ok := b.shardOf(t.Context(), c.keys.lock)
		if !ok {
			t.Fatal("nobody knows who has the key")
		}
		wg.Go(func() {
			patience := time.Minute
			if server == silent.Addr() {
				patience = 300 * time.Millisecond
			}
			b.do(bounded(t.Context(), patience), c)
			switch {
			case server == silent.Addr() && asFault(c.err) != nil:
				failed.Add(1)
			case server != silent.Addr() && c.err == nil:
				served.Add(1)
			default:
				t.Errorf("%d at %s: %+v, %v", i, server, c.answer, c.err)
			}
		})
	}
	wg.Wait()
	if served.Load() < 100 || failed.Load() < 50 {
		t.Errorf("%d served, %d failed", served.Load(), failed.Load())
	}
	silent.Proxy.Heal()
	testenv.Eventually(t, time.Minute, "the slots are free again", func() bool { return busy(b) == 0 })
}
