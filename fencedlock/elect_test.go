package fencedlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

func TestLeaderCampaignsAgainAfterALoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var terms []int64
		err := l.Elect(ctx, "r", nil, func(ctx context.Context, f fencedstore.Fence) error {
			terms = append(terms, f.ID)
			switch len(terms) {
			case 1: // another takes over and goes away later
				m.steal("r")
				<-ctx.Done()
				m.wipe()
				return ctx.Err()
			case 2: // Redis is away for a while
				m.fault(func(context.Context, *call) error { return errDown })
				<-ctx.Done()
				go func() {
					pass(time.Minute)
					m.fault(nil)
				}()
				return nil
			}
			cancel()
			<-ctx.Done()
			return nil
		})
		if err != nil || len(terms) != 3 {
			t.Errorf("%d terms, %v", len(terms), err)
		}
		for i := range terms[1:] {
			if terms[i+1] <= terms[i] {
				t.Errorf("terms %v", terms)
			}
		}
		if m.live() != 0 {
			t.Error("the last term was not released")
		}
	})
}

func TestElectEndsWhenTheLeaderResignsOrNothingHelps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl})
		resigned := errors.New("resigned")
		for _, want := range []error{nil, resigned} {
			if err := l.Elect(t.Context(), "r", nil, func(context.Context, fencedstore.Fence) error { return want }); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		}
		never := func(context.Context, fencedstore.Fence) error {
			t.Error("led")
			return nil
		}
		m.fault(func(context.Context, *call) error { return &ConfigError{Need: "everything"} })
		if err := l.Elect(t.Context(), "r", nil, never); !errors.Is(err, ErrConfig) {
			t.Errorf("got %v", err)
		}
		m.fault(func(context.Context, *call) error { return errDown })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := l.Elect(ctx, "r", nil, never); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		m.fault(nil)
		if err := l.Elect(t.Context(), "r", nil, nil); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("got %v", err)
		}
	})
}

func TestNameIsKeptForAMinimumTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl})
		opts := &AcquireOptions{KeepFor: 10 * ttl}
		job := func() {
			k, err := l.TryAcquire(t.Context(), "r", opts)
			if err != nil {
				t.Fatal(err)
			}
			pass(ttl / 2)
			if err := k.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		job()
		if _, err := l.TryAcquire(t.Context(), "r", opts); !errors.Is(err, ErrHeld) {
			t.Errorf("after the job: %v", err)
		}
		pass(9 * ttl)
		if _, err := l.TryAcquire(t.Context(), "r", opts); !errors.Is(err, ErrHeld) {
			t.Errorf("before the time is up: %v", err)
		}
		k, err := l.Acquire(t.Context(), "r", opts)
		if waited := time.Since(start); err != nil || waited < 10*ttl || waited > 12*ttl {
			t.Fatalf("after %v: %v", waited, err)
		}
		pass(20 * ttl) // a long job is not kept for longer
		if err := k.Release(t.Context()); err != nil || m.live() != 0 {
			t.Errorf("%v, %d locks", err, m.live())
		}
		job2 := mustAcquire(t, l, "plain")
		if err := job2.Release(t.Context()); err != nil || m.live() != 0 {
			t.Errorf("without KeepFor: %v, %d locks", err, m.live())
		}
		if _, err := l.TryAcquire(t.Context(), "r", &AcquireOptions{KeepFor: -1}); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("a negative time: %v", err)
		}
	})
}

func TestNameIsKeptWhenTheLockerCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: ttl})
		for _, keep := range []time.Duration{0, 10 * ttl} {
			if _, err := l.Acquire(t.Context(), keep.String(), &AcquireOptions{KeepFor: keep}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		pass(9 * ttl)
		if m.live() != 1 {
			t.Errorf("%d locks, want 1", m.live())
		}
	})
}
