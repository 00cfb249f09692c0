package locktest_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/fencedlock/locktest"
	"github.com/fenced-go/fenced/fencedstore"
)

// start returns a client with faults and one without.
func start(tb testing.TB) (faults *locktest.Faults, faulty, rdb *redis.Client) {
	tb.Helper()
	s := locktest.Start(tb)
	faults = locktest.NewFaults()
	return faults, s.Client(tb, faults), s.Client(tb)
}

func value(tb testing.TB, rdb *redis.Client, key string) string {
	tb.Helper()
	v, err := rdb.Get(tb.Context(), key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		tb.Fatal(err)
	}
	return v
}

func TestFailNextSendsNothing(t *testing.T) {
	t.Parallel()
	faults, faulty, rdb := start(t)
	faults.FailNext(2, nil)
	for range 2 {
		err := faulty.Incr(t.Context(), "n").Err()
		if !errors.Is(err, locktest.ErrInjected) || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v, want an ErrInjected that is a refused connection", err)
		}
	}
	if got := value(t, rdb, "n"); got != "" {
		t.Errorf("a failed command ran: n is %s", got)
	}
	if err := faulty.Incr(t.Context(), "n").Err(); err != nil || faults.Injected() != 2 {
		t.Errorf("the third: got %v after %d faults, want nil after 2", err, faults.Injected())
	}
	own := errors.New("mine")
	faults.FailNext(1, own)
	if err := faulty.Incr(t.Context(), "n").Err(); !errors.Is(err, own) || errors.Is(err, locktest.ErrInjected) {
		t.Errorf("got %v, want the test's own error", err)
	}
}

func TestLoseReplyRunsTheCommand(t *testing.T) {
	t.Parallel()
	faults, faulty, rdb := start(t)
	faults.LoseReply(1)
	err := faulty.Incr(t.Context(), "n").Err()
	if !errors.Is(err, locktest.ErrInjected) || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want an ErrInjected that is a broken connection", err)
	}
	if got := value(t, rdb, "n"); got != "1" {
		t.Errorf("n is %q, want the command to have run once", got)
	}
	if got, err := faulty.Incr(t.Context(), "n").Result(); err != nil || got != 2 {
		t.Errorf("the next: got %d, %v, want 2", got, err)
	}
}

func TestLoseReplyWaitsForACommandThatRuns(t *testing.T) {
	t.Parallel()
	faults, faulty, _ := start(t)
	faults.LoseReply(1)
	if err := faulty.EvalSha(t.Context(), "00", nil).Err(); !redis.HasErrorPrefix(err, "NOSCRIPT") {
		t.Errorf("got %v, want the server's error", err)
	}
	if got := faults.Injected(); got != 0 {
		t.Errorf("got %d faults, want none yet", got)
	}
	if err := faulty.Get(t.Context(), "absent").Err(); !errors.Is(err, locktest.ErrInjected) {
		t.Errorf("got %v, want the reply nil to be lost", err)
	}
}

func TestFaultsCountCommandsInPipelines(t *testing.T) {
	t.Parallel()
	for name, pipelined := range map[string]func(c *redis.Client) func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error){
		"pipeline": func(c *redis.Client) func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error) {
			return c.Pipelined
		},
		"transaction": func(c *redis.Client) func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error) {
			return c.TxPipelined
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults, faulty, rdb := start(t)
			faults.Only("incr")
			faults.FailNext(1, nil)
			faults.LoseReply(1)
			var cmds []*redis.IntCmd
			_, err := pipelined(faulty)(t.Context(), func(p redis.Pipeliner) error {
				for _, key := range []string{"fails", "lost", "fine"} {
					cmds = append(cmds, p.Incr(t.Context(), key))
				}
				p.Set(t.Context(), "other", "set", 0)
				return nil
			})
			if !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("got %v, want the first command's error", err)
			}
			for i, want := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, nil} {
				if err := cmds[i].Err(); !errors.Is(err, want) {
					t.Errorf("command %d: got %v, want %v", i, err, want)
				}
			}
			for key, want := range map[string]string{"fails": "", "lost": "1", "fine": "1", "other": "set"} {
				if got := value(t, rdb, key); got != want {
					t.Errorf("%s is %q, want %q", key, got, want)
				}
			}
		})
	}
}

func TestPipelineOfFailedCommandsIsNotSent(t *testing.T) {
	t.Parallel()
	faults, faulty, rdb := start(t)
	faults.FailNext(2, locktest.ServerError("LOADING Redis is loading the dataset in memory"))
	_, err := faulty.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Incr(t.Context(), "n")
		p.Incr(t.Context(), "n")
		return nil
	})
	if !redis.IsLoadingError(err) || value(t, rdb, "n") != "" {
		t.Errorf("got %v, n is %q, want LOADING and nothing", err, value(t, rdb, "n"))
	}
}

func TestOnlyAndHeal(t *testing.T) {
	t.Parallel()
	faults, faulty, _ := start(t)
	faults.Only("GET", "set").FailNext(100, nil)
	for name, tt := range map[string]struct {
		err   error
		fails bool
	}{
		"get":  {faulty.Get(t.Context(), "k").Err(), true},
		"set":  {faulty.Set(t.Context(), "k", "v", 0).Err(), true},
		"incr": {faulty.Incr(t.Context(), "n").Err(), false},
	} {
		if (tt.err != nil) != tt.fails {
			t.Errorf("%s: got %v, want an error: %t", name, tt.err, tt.fails)
		}
	}
	if err := faults.Only(); err == nil || faulty.Incr(t.Context(), "n").Err() == nil {
		t.Error("without names: want every command to fail")
	}
	faults.Heal()
	if err := faulty.Incr(t.Context(), "n").Err(); err != nil {
		t.Errorf("after Heal: got %v", err)
	}
}

func TestDelayEndsWithTheContext(t *testing.T) {
	t.Parallel()
	faults, faulty, rdb := start(t)
	faults.Delay(time.Hour)
	late, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := faulty.Incr(late, "n").Err(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline to end the delay", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err := faulty.Pipelined(cancelled, func(p redis.Pipeliner) error {
		p.Incr(cancelled, "n")
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("pipeline: got %v, want the context to end the delay", err)
	}
	if got := value(t, rdb, "n"); got != "" {
		t.Errorf("a command that was given up ran: n is %s", got)
	}
	const d = 30 * time.Millisecond
	faults.Delay(d)
	began := time.Now()
	if err := faulty.Incr(t.Context(), "n").Err(); err != nil || time.Since(began) < d {
		t.Errorf("got %v after %v, want it to run after %v", err, time.Since(began), d)
	}
}

// TestEachActOfALockerHasItsName fails when the scripts of a Locker change
// their shape and Faults no longer knows them.
func TestEachActOfALockerHasItsName(t *testing.T) {
	t.Parallel()
	acts := map[string]func(l *fencedlock.Locker, k *fencedlock.Lock) error{
		locktest.Acquire: func(l *fencedlock.Locker, _ *fencedlock.Lock) error {
			_, err := l.TryAcquire(t.Context(), "another", nil)
			return err
		},
		locktest.Renew:   func(_ *fencedlock.Locker, k *fencedlock.Lock) error { return k.Renew(t.Context()) },
		locktest.Release: func(_ *fencedlock.Locker, k *fencedlock.Lock) error { return k.Release(t.Context()) },
	}
	for only := range acts {
		for act, do := range acts {
			faults := locktest.NewFaults()
			l := locktest.Start(t).Locker(t, nil, faults)
			k := acquire(t, l, resource)
			faults.Only(only).FailNext(100, errors.New("no"))
			if err := do(l, k); (err != nil) != (act == only) {
				t.Errorf("only %s fails: %s got %v", only, act, err)
			}
			faults.Heal()
		}
	}
}

func TestLockerSurvivesALostReply(t *testing.T) {
	t.Parallel()
	s, faults := locktest.Start(t), locktest.NewFaults()
	l := s.Locker(t, nil, faults)
	faults.LoseReply(1)
	k := acquire(t, l, resource)
	if faults.Injected() != 1 {
		t.Errorf("got %d faults, want the reply to the acquire to be lost", faults.Injected())
	}
	faults.LoseReply(1)
	if err := k.Release(t.Context()); err != nil || s.Held(resource) {
		t.Errorf("release: got %v, held %t", err, s.Held(resource))
	}
}

func TestLockEndsWhileRenewalsFail(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(f *locktest.Faults){
		"refused": func(f *locktest.Faults) { f.FailNext(1_000_000, nil) },
		"LOADING": func(f *locktest.Faults) { f.FailNext(1_000_000, locktest.ServerError("LOADING")) },
		"stuck":   func(f *locktest.Faults) { f.Delay(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults := locktest.NewFaults()
			k := acquire(t, locktest.Start(t).Locker(t, &fencedlock.Options{TTL: time.Second}, faults), resource)
			ctx, cancel := k.Context(t.Context())
			defer cancel()
			fault(faults.Only(locktest.Renew))
			receive(t, "the end of the lock", ctx.Done())
			var lost *fencedlock.LostError
			if !errors.As(context.Cause(ctx), &lost) || lost.Fence != k.Fence() {
				t.Errorf("got %v, want a *LostError with the fence", context.Cause(ctx))
			}
			if f, err := fencedstore.FromContext(ctx); err != nil || f != k.Fence() {
				t.Errorf("the context carries %v, %v", f, err)
			}
		})
	}
}
