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
	b := newRedisBackend(rdb)
	c := question(-1) // from now on Redis is known to answer
	b.do(bounded(t.Context(), time.Minute), c)
	if c.err != nil {
		t.Fatal(c.err)
	}
	return b, hook
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
