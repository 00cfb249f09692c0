package fencedlock

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenced-go/fenced/fencedstore"
)

func TestHeldResourceIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := testLocker(t, newMemory(), newSkewed(), &Options{TTL: ttl, Label: "host a"})
		k := mustAcquire(t, l, "r")
		start := time.Now()
		_, err := l.TryAcquire(t.Context(), "r", nil)
		var held *HeldError
		if !errors.As(err, &held) || !errors.Is(err, ErrHeld) || time.Since(start) != 0 {
			t.Fatalf("TryAcquire: %v after %v", err, time.Since(start))
		}
		if want := (HeldError{Resource: "r", Label: "host a", TTL: ttl, FenceID: k.Fence().ID}); *held != want {
			t.Errorf("got %+v, want %+v", *held, want)
		}
		if strings.Contains(err.Error(), k.Fence().Holder) {
			t.Error("the text gives the holder away")
		}
	})
}

func TestWaiterGetsTheLockAfterItsRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := testLocker(t, m, newSkewed(), &Options{TTL: 30 * time.Second})
		first := mustAcquire(t, l, "r")
		var wg sync.WaitGroup
		wg.Go(func() {
			second := mustAcquire(t, l, "r")
			if first.Err() == nil || second.Fence().ID <= first.Fence().ID {
				t.Errorf("fence %v while the first lock is %v", second.Fence(), first.Err())
			}
		})
		pass(10 * time.Second)
		if tries := m.count(opAcquire); tries < 20 || tries > 100 {
			t.Errorf("%d tries in ten seconds, want about 40", tries)
		}
		if err := first.Release(t.Context()); err != nil {
			t.Error(err)
		}
		start := time.Now()
		wg.Wait()
		if waited := time.Since(start); waited > maxPoll+time.Millisecond {
			t.Errorf("the waiter needed %v, want one poll", waited)
		}
	})
}

func TestAbandonedLockIsFreeAfterItsTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		dead := testLocker(t, m, newSkewed(), &Options{TTL: ttl})
		k := mustAcquire(t, dead, "r")
		dead.scheduler.Lock()
		dead.scheduler.forget(k) // as if its process had been killed
		dead.scheduler.Unlock()
		start := time.Now()
		next := mustAcquire(t, testLocker(t, m, newSkewed(), nil), "r")
		if waited := time.Since(start); waited < ttl || waited > ttl+maxPoll+time.Millisecond {
			t.Errorf("waited %v, want the TTL of %v and one poll at most", waited, ttl)
		}
		if next.Fence().ID <= k.Fence().ID {
			t.Errorf("fence %d after %d", next.Fence().ID, k.Fence().ID)
		}
	})
}

func TestEndOfTheWaitTellsWhoHeldAndWhy(t *testing.T) {
	t.Parallel()
	stop := errors.New("shutting down")
	for name, c := range map[string]struct {
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		want []error
	}{
		"deadline": {
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 300*time.Millisecond)
			},
			[]error{ErrHeld, context.DeadlineExceeded},
		},
		"deadline with a cause": {
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeoutCause(ctx, 300*time.Millisecond, stop)
			},
			[]error{ErrHeld, context.DeadlineExceeded, stop},
		},
		"cancelled": {
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(ctx)
				time.AfterFunc(300*time.Millisecond, func() { cancel(stop) })
				return ctx, func() { cancel(nil) }
			},
			[]error{ErrHeld, context.Canceled, stop},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := testLocker(t, newMemory(), newSkewed(), nil)
				k := mustAcquire(t, l, "r")
				ctx, cancel := c.ctx(t.Context())
				defer cancel()
				start := time.Now()
				_, err := l.Acquire(ctx, "r", nil)
				if got := time.Since(start); got != 300*time.Millisecond {
					t.Errorf("waited %v", got)
				}
				for _, want := range c.want {
					if !errors.Is(err, want) {
						t.Errorf("%v does not match %v", err, want)
					}
				}
				var held *HeldError
				if !errors.As(err, &held) || held.FenceID != k.Fence().ID {
					t.Errorf("%v has no *HeldError of the holder", err)
				}
			})
		})
	}
}

func TestWaitDoesNotChangeTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := testLocker(t, newMemory(), newSkewed(), &Options{TTL: 5 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		k, err := l.Acquire(ctx, "r", nil)
		cancel()
		if err != nil || k.Remaining() != 5*time.Second-margin(5*time.Second) {
			t.Fatalf("%v, Remaining %v", err, k.Remaining())
		}
		pass(time.Minute)
		if k.Err() != nil {
			t.Errorf("the lock ended with the context of its Acquire: %v", k.Err())
		}
	})
}

func TestEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	m := newMemory()
	l := testLocker(t, m, newSkewed(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if _, err := l.Acquire(ctx, "r", nil); !errors.Is(err, context.Canceled) || errors.Is(err, ErrHeld) {
			t.Errorf("Acquire: %v", err)
		}
		if _, err := l.TryAcquire(ctx, "r", nil); !errors.Is(err, context.Canceled) {
			t.Errorf("TryAcquire: %v", err)
		}
	}
	if n := m.count(opAcquire); n != 0 {
		t.Errorf("%d questions asked", n)
	}
}

func TestTinyWaitTriesOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.fault(func(ctx context.Context, _ *call) error {
			const slow = 20 * time.Millisecond // slower than the wait is long
			if end, ok := ctx.Deadline(); ok && time.Until(end) < slow {
				return hang(ctx)
			}
			pass(slow)
			return nil
		})
		l := testLocker(t, m, newSkewed(), nil)
		for i, wait := range []time.Duration{time.Nanosecond, time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			k, err := l.Acquire(ctx, "r", nil)
			cancel()
			if err != nil || m.count(opAcquire) != i+1 {
				t.Fatalf("a wait of %v: %v after %d tries", wait, err, m.count(opAcquire))
			}
			if err := k.Release(ctx); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestLostAnswerOfAnAcquireIsAskedForAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		lose := 2
		m.after = func(_ context.Context, c *call) error {
			if lose--; c.op == opAcquire && lose >= 0 {
				return &faultError{err: errors.New("connection reset"), ran: true}
			}
			return nil
		}
		l := testLocker(t, m, newSkewed(), nil)
		k, err := l.TryAcquire(t.Context(), "r", nil)
		if err != nil || m.count(opAcquire) != 3 || m.live() != 1 {
			t.Fatalf("%v after %d tries, %d locks", err, m.count(opAcquire), m.live())
		}
		if err := k.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAcquireThatGivesUpGivesBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		down    op // whose answers are lost
		unknown bool
	}{
		"released":     {opAcquire, false},
		"not released": {opRelease, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.after = func(ctx context.Context, asked *call) error {
					if asked.op <= c.down || asked.op == opAcquire {
						return hang(ctx)
					}
					return nil
				}
				l := testLocker(t, m, newSkewed(), &Options{TTL: time.Hour})
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				start := time.Now()
				_, err := l.Acquire(ctx, "r", nil)
				if waited := time.Since(start); waited > 200*time.Millisecond+releaseGrace {
					t.Errorf("returned after %v", waited)
				}
				if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrHeld) {
					t.Errorf("error %v", err)
				}
				if got := errors.Is(err, fencedstore.ErrUnknownOutcome); got != c.unknown {
					t.Errorf("unknown outcome %v, want %v: %v", got, c.unknown, err)
				}
				pass(closeTimeout)
				if m.live() != 0 {
					t.Error("the resource stays locked")
				}
			})
		})
	}
}

func TestUnreachableRedisIsReportedSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		asked := 0
		m.fault(func(context.Context, *call) error { asked++; return errDown })
		l := testLocker(t, m, newSkewed(), nil)
		start := time.Now()
		_, err := l.Acquire(t.Context(), "r", nil)
		var u *UnavailableError
		if !errors.As(err, &u) || !errors.Is(err, ErrUnavailable) || !errors.Is(err, errDown.err) || errors.Is(err, fencedstore.ErrUnknownOutcome) {
			t.Fatalf("error %v", err)
		}
		if asked != acquireTries || time.Since(start) > 2*time.Second {
			t.Errorf("%d tries in %v", asked, time.Since(start))
		}
	})
}

func TestConfigurationErrorIsNotRetried(t *testing.T) {
	t.Parallel()
	m := newMemory()
	asked := 0
	m.fault(func(context.Context, *call) error {
		asked++
		return &ConfigError{Need: "something is needed", Err: errors.New("NOPERM")}
	})
	l := testLocker(t, m, newSkewed(), nil)
	_, err := l.Acquire(t.Context(), "r", nil)
	var c *ConfigError
	if !errors.As(err, &c) || errors.Is(err, ErrUnavailable) || c.Op != "acquire" || c.Resource != "r" || asked != 1 {
		t.Errorf("%v after %d tries", err, asked)
	}
}

func TestLeaseThatEndedOnItsWayIsNotReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.after = func(_ context.Context, c *call) error {
			if c.op == opAcquire {
				pass(20 * time.Millisecond)
			}
			return nil
		}
		l := testLocker(t, m, newSkewed(), &Options{TTL: MinTTL})
		k, err := l.TryAcquire(t.Context(), "r", nil)
		if k != nil || !errors.Is(err, ErrLost) {
			t.Errorf("got %v, %v", k, err)
		}
	})
}

func TestBadInputSendsNothing(t *testing.T) {
	t.Parallel()
	m := newMemory()
	l := testLocker(t, m, newSkewed(), &Options{TTL: time.Second, RenewEvery: 500 * time.Millisecond})
	long := strings.Repeat("x", 1000)
	for name, c := range map[string]struct {
		resource string
		opts     *AcquireOptions
	}{
		"empty resource":      {"", nil},
		"long resource":       {long, nil},
		"negative TTL":        {"r", &AcquireOptions{TTL: -time.Second}},
		"TTL of a nanosecond": {"r", &AcquireOptions{TTL: 1}},
		"TTL of 500 µs":       {"r", &AcquireOptions{TTL: 500 * time.Microsecond}},
		"TTL below the floor": {"r", &AcquireOptions{TTL: MinTTL - 1}},
		"TTL above the limit": {"r", &AcquireOptions{TTL: MaxTTL + time.Millisecond}},
		"TTL before renewal":  {"r", &AcquireOptions{TTL: 500 * time.Millisecond}},
		"long label":          {"r", &AcquireOptions{Label: long}},
		"label with a break":  {"r", &AcquireOptions{Label: "a\nb"}},
		"label not UTF-8":     {"r", &AcquireOptions{Label: "\xff"}},
		"nil store":           {"r", &AcquireOptions{Stores: []fencedstore.Claimer{nil}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := l.Acquire(t.Context(), c.resource, c.opts)
			var arg *ArgumentError
			if !errors.As(err, &arg) || !errors.Is(err, ErrInvalidArgument) || arg.Name == "" || len(err.Error()) > 200 {
				t.Errorf("Acquire: %v", err)
			}
			if _, err := l.TryAcquire(t.Context(), c.resource, c.opts); !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("TryAcquire: %v", err)
			}
			err = l.Do(t.Context(), c.resource, c.opts, func(context.Context, fencedstore.Fence) error {
				t.Error("fn was called")
				return nil
			})
			if !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("Do: %v", err)
			}
			if n := m.count(opAcquire); n != 0 {
				t.Errorf("%d questions asked", n)
			}
		})
	}
}

func TestNilContextIsRefused(t *testing.T) {
	t.Parallel()
	m := newMemory()
	l := testLocker(t, m, newSkewed(), nil)
	var none context.Context
	k := mustAcquire(t, l, "held")
	_, err1 := l.Acquire(none, "r", nil)
	_, err2 := l.TryAcquire(none, "r", nil)
	err3 := l.Do(none, "r", nil, func(context.Context, fencedstore.Fence) error { return nil })
	for _, err := range []error{err1, err2, err3, k.Renew(none), k.Release(none)} {
		if !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("error %v", err)
		}
	}
	if m.count(opAcquire) != 1 || k.Err() != nil {
		t.Errorf("%d questions asked, lock %v", m.count(opAcquire), k.Err())
	}
	if err := l.Do(t.Context(), "r", nil, nil); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("Do without a function: %v", err)
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"Options.TTL":        {TTL: -1},
		"Options.TTL ":       {TTL: time.Millisecond},
		"Options.TTL  ":      {TTL: MaxTTL + time.Millisecond},
		"Options.RenewEvery": {RenewEvery: -1},
		// Too late for an answer.
		"Options.RenewEvery ":  {TTL: time.Second, RenewEvery: time.Second},
		"Options.RenewEvery  ": {RenewEvery: time.Microsecond},
		"Options.MaxHold":      {MaxHold: -1},
		"Options.Prefix":       {Prefix: "a{b"},
		"Options.Prefix ":      {Prefix: strings.Repeat("x", 129)},
		"Options.Label":        {Label: "\x00"},
		"Options.Stores[0]":    {Stores: []fencedstore.Claimer{nil}},
	} {
		_, err := o.complete()
		var arg *ArgumentError
		if !errors.As(err, &arg) || arg.Name != strings.TrimSpace(name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(nil, nil); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("New without a client: %v", err)
	}
	o, err := (*Options)(nil).complete()
	if err != nil || o.TTL != DefaultTTL || o.Prefix != DefaultPrefix || o.Logger == nil || o.Hooks == nil {
		t.Errorf("defaults: %+v, %v", o, err)
	}
	o, err = (&Options{TTL: 10*time.Millisecond + 999*time.Microsecond}).complete()
	if err != nil || o.TTL != 10*time.Millisecond {
		t.Errorf("fraction of a millisecond: %v, %v", o.TTL, err)
	}
}

func TestKeysNeverCollide(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, prefix := range []string{"prod", "prod2", "prod:", "p"} {
		for _, resource := range []string{
			"x", "2x", "{x}", "x}", "}x{", "%7Bx%7D", "%", "a b", "é✓", "x}:lock", ":lock", "x:fence", "\x00", "%25", "rod{x", "x\n",
		} {
			for _, key := range []string{newKeys(prefix, resource).lock, newKeys(prefix, resource).counter, newKeys(prefix, resource).queue} {
				id := prefix + " / " + resource
				if other, ok := seen[key]; ok {
					t.Errorf("%q and %q share the key %q", id, other, key)
				}
				seen[key] = id
				if !strings.HasPrefix(key, prefix+"{") || strings.Count(key, "{") != 1 || strings.Count(key, "}") != 1 {
					t.Errorf("key %q of %q", key, id)
				}
			}
		}
	}
	if got, want := newKeys("fenced:", "invoice/42"), (keys{"fenced:{invoice/42}:lock", "fenced:{invoice/42}:fence", "fenced:{invoice/42}:queue"}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestHoldersAreFresh(t *testing.T) {
	t.Parallel()
	m := newMemory()
	seen := map[string]bool{}
	for range 2 { // two Lockers with the same identity: host, process and start
		l := testLocker(t, m, newSkewed(), &Options{Label: "host:1"})
		for range 100 {
			k := mustAcquire(t, l, "r")
			if h := k.Fence().Holder; seen[h] || len(h) != 32 {
				t.Fatalf("holder of %d bytes, seen before: %v", len(h), seen[h])
			}
			seen[k.Fence().Holder] = true
			if err := k.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}
