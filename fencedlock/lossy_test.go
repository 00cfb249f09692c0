package fencedlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/internal/testenv"
)

// lossy is a Redis of whose wake-ups some are lost.
type lossy struct {
	backend
	share float64
	lost  *atomic.Int64
}

func (b lossy) listen(ctx context.Context, name string) (channel, error) {
	c, err := b.backend.listen(ctx, name)
	if err != nil {
		return nil, err
	}
	return lossyChannel{c, b}, nil
}

type lossyChannel struct {
	channel
	b lossy
}

func (c lossyChannel) receive() (string, error) {
	text, err := c.channel.receive()
	if text != "" && rand.Float64() < c.b.share {
		c.b.lost.Add(1)
		return "", err
	}
	return text, err
}

// TestLostWakeUpsSlowNobodyDownForLong has eight processes hand the lock around
// with work of a millisecond, while a fifth or all of the wake-ups are lost.
func TestLostWakeUpsSlowNobodyDownForLong(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	for name, share := range map[string]float64{"none": 0, "a fifth": 0.2, "all": 1} {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		var lost, turns, last, longest atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			rdb := redis.NewClient(&redis.Options{Addr: srv.DirectAddr()})
			o, err := (&Options{TTL: 10 * time.Second}).complete()
			if err != nil {
				t.Fatal(err)
			}
			l := newLocker(lossy{newRedisBackend(rdb), share, &lost}, o, newClock())
			wg.Go(func() {
				defer func() { _ = rdb.Close() }()
				defer func() { _ = l.Close() }() //nolint:contextcheck // Close has no context
				for {
					start := time.Now()
					k, err := l.Acquire(ctx, "r", nil)
					if err != nil {
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("Acquire: %v", err)
						}
						return
					}
					longest.Store(max(longest.Load(), int64(time.Since(start))))
					if prev := last.Swap(k.Fence().ID); prev >= k.Fence().ID {
						t.Errorf("fence %d after %d", k.Fence().ID, prev)
					}
					turns.Add(1)
					pass(time.Millisecond)
					// a busy machine may need longer than a first lease
					if err := k.Release(t.Context()); err != nil && !errors.Is(err, ErrLost) { //nolint:contextcheck // the test's own context
						t.Errorf("Release: %v", err)
					}
				}
			})
		}
		wg.Wait()
		cancel()
		t.Logf("%s lost: %d of %d turns in 3 s, the longest wait %v", name, lost.Load(), turns.Load(), time.Duration(longest.Load()))
		if turns.Load() < 15 || share > 0 && lost.Load() == 0 {
			t.Errorf("%s lost: %d of %d turns in 3 s", name, lost.Load(), turns.Load())
		}
	}
}
