package fencedlock_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedlock/locktest"
	"github.com/fenced-go/fenced/fencedstore"
)

// seen is a hook that counts what passes through it.
type seen struct {
	mu                sync.Mutex
	single, pipelined int
}

func (*seen) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *seen) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.mu.Lock()
		s.single++
		s.mu.Unlock()
		return next(ctx, cmd)
	}
}

func (s *seen) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if slices.ContainsFunc(cmds, func(c redis.Cmder) bool { return c.Name() == "evalsha" }) {
			s.mu.Lock()
			s.pipelined++
			s.mu.Unlock()
		}
		return next(ctx, cmds)
	}
}

func TestHooksOfTheClientSeeTheCommands(t *testing.T) {
	t.Parallel()
	h := &seen{}
	rdb := locktest.Start(t).Client(t, h)
	renewed := make(chan struct{}, 100)
	for range 2 { // several Lockers on one client
		l, err := fencedlock.New(rdb, &fencedlock.Options{RenewEvery: 20 * time.Millisecond, Hooks: &fencedlock.Hooks{
			Renewed: func(context.Context, fencedstore.Fence, time.Duration) { renewed <- struct{}{} },
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		k, err := l.TryAcquire(t.Context(), t.Name(), nil)
		if err != nil {
			t.Fatal(err)
		}
		<-renewed
		if err := k.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.single < 4 || h.pipelined < 2 {
		t.Errorf("got %d commands and %d pipelines, want at least 4 and 2", h.single, h.pipelined)
	}
}
