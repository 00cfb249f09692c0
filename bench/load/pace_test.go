package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func pause(d time.Duration) { <-time.After(d) }

// TestLateWorkIsSlow stops the world for two seconds out of ten: the work that
// was due meanwhile is done, and its latency is from when it was due.
func TestLateWorkIsSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		k := kind{"k", 1, func(context.Context, int) error {
			if n++; n == 20 {
				pause(2 * time.Second)
			}
			pause(time.Millisecond)
			return nil
		}}
		got := drive(t.Context(), []kind{k}, []float64{10}, 10*time.Second)[0]
		if got.n != 100 || n != 100 {
			t.Errorf("got %d operations, want 100 in 10 s", got.n)
		}
		if p50, p90 := got.quantile(0.5), got.quantile(0.9); p50 > 2*time.Millisecond || p90 < time.Second {
			t.Errorf("got p50 %v and p90 %v; want 1 ms, and more than a second for what was late", p50, p90)
		}
		if got.most != 2001*time.Millisecond {
			t.Errorf("got %v at most, want 2.001 s", got.most)
		}
	})
}

func TestWorkersShareARate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var starts [4][]time.Duration
		began := time.Now()
		k := kind{"k", len(starts), func(_ context.Context, worker int) error {
			starts[worker] = append(starts[worker], time.Since(began))
			return nil
		}}
		got := drive(t.Context(), []kind{k}, []float64{8}, 3*time.Second)[0]
		if got.n != 24 || got.perSecond() != 8 {
			t.Errorf("got %d operations, %v a second; want 24, 8 a second", got.n, got.perSecond())
		}
		for i, list := range starts {
			if len(list) != 6 || list[0] != time.Duration(i)*125*time.Millisecond || list[1]-list[0] != 500*time.Millisecond {
				t.Errorf("worker %d began at %v, want every half second from its share on", i, list)
			}
		}
	})
}

func TestAsFastAsPossible(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("no")
		kinds := []kind{
			{"quick", 2, func(context.Context, int) error { pause(10 * time.Millisecond); return nil }},
			{"failing", 1, func(context.Context, int) error { pause(100 * time.Millisecond); return failure }},
		}
		got := drive(t.Context(), kinds, nil, time.Second)
		if got[0].n != 200 || got[0].quantile(0.5) != 10*time.Millisecond || got[0].errors != 0 {
			t.Errorf("got %d operations of %v, want 200 of 10 ms", got[0].n, got[0].quantile(0.5))
		}
		if got[1].errors != 10 || !errors.Is(verdict(kinds, got), failure) {
			t.Errorf("got %d errors, %v", got[1].errors, verdict(kinds, got))
		}
	})
}

func TestIdleKindIsAnError(t *testing.T) {
	t.Parallel()
	if err := verdict([]kind{{name: "k"}}, make([]tally, 1)); !errors.Is(err, errIdle) {
		t.Errorf("got %v, want an error: nothing was measured", err)
	}
}

func TestDriveEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		drive(ctx, []kind{{"k", 2, func(context.Context, int) error { return nil }}}, []float64{1}, time.Hour)
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v, want a second", took)
		}
	})
}
