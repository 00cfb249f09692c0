package postgres_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
	"github.com/fenced-go/fenced/internal/testenv"
)

const addOne = "insert into kv values ('n', '1') on conflict (key) do update set value = (kv.value::text::int + 1)::text::bytea"

func TestOfAllCallersExactlyOneCommits(t *testing.T) {
	t.Parallel()
	const callers, keys = 8, 5
	url := database(t)
	for _, level := range levels {
		pool := openPool(t, url, setting("default_transaction_isolation", string(level)))
		var ran, called atomic.Int64
		errs := make(chan error, callers)
		for range callers {
			go func() {
				var all error
				for key := range int64(keys) {
					first, err := postgres.RunOnce(t.Context(), pool, string(level)+number64(key), func(tx pgx.Tx) error {
						called.Add(1)
						_, err := tx.Exec(t.Context(), "insert into kv values ($1, '')", []byte(string(level)+number64(key)))
						return err
					})
					if first {
						ran.Add(1)
					}
					all = errors.Join(all, err)
				}
				errs <- all
			}()
		}
		for range callers {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if ran.Load() != keys || called.Load() != keys {
			t.Errorf("%s: %d callers won and %d were called, want %d", level, ran.Load(), called.Load(), keys)
		}
	}
}

// The others wait, and one of them takes over when the first one fails.
func TestNextCallerTakesOverFromOneThatFails(t *testing.T) {
	t.Parallel()
	pool := openPool(t, database(t))
	for name, fail := range map[string]func(){
		"error": func() {},
		"panic": func() { panic(errCallback) },
	} {
		next := make(chan error, 1)
		var ran bool
		func() {
			defer func() { _ = recover() }()
			first, err := postgres.RunOnce(t.Context(), pool, name, func(tx pgx.Tx) error {
				err := put(t.Context(), tx, "of the first, "+name)
				go func() {
					var err error
					ran, err = postgres.RunOnce(t.Context(), pool, name, func(tx pgx.Tx) error { return put(t.Context(), tx, "of the second, "+name) })
					next <- err
				}()
				untilWaiting(t, pool)
				fail()
				return errors.Join(err, errCallback)
			})
			if first || !errors.Is(err, errCallback) {
				t.Errorf("%s: the first got %v, %v", name, first, err)
			}
		}()
		if err := <-next; err != nil || !ran {
			t.Errorf("%s: the second got %v, %v, want it to take over", name, ran, err)
		}
		if value(t, pool, "of the first, "+name) != "" || value(t, pool, "of the second, "+name) == "" {
			t.Errorf("%s: want the work of the second alone", name)
		}
	}
}

// A caller that is paused in its transaction is ended by the server, and its
// COMMIT fails when it wakes up.
func TestPausedCallerIsEndedAndAnotherTakesOver(t *testing.T) {
	t.Parallel()
	pool := openPool(t, database(t), setting("idle_in_transaction_session_timeout", "30ms"))
	var ran bool
	first, err := postgres.RunOnce(t.Context(), pool, "k", func(tx pgx.Tx) error {
		err := put(t.Context(), tx, "paused")
		var other error
		ran, other = postgres.RunOnce(t.Context(), pool, "k", func(tx pgx.Tx) error { return put(t.Context(), tx, "other") })
		return errors.Join(err, other)
	})
	if first || err == nil || errors.Is(err, fencedstore.ErrUnknownOutcome) || !ran {
		t.Errorf("the paused caller got %v, %v, the other %v", first, err, ran)
	}
	if value(t, pool, "paused") != "" || value(t, pool, "other") == "" {
		t.Error("want the work of the other alone")
	}
}

func TestWaitForAnotherCallerEndsInTime(t *testing.T) {
	t.Parallel()
	pool := openPool(t, database(t))
	hasty := openPool(t, pool.Config().ConnString(), setting("lock_timeout", "20ms"))
	_, err := postgres.RunOnce(t.Context(), pool, "k", func(pgx.Tx) error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		for name, wait := range map[string]func() (bool, error){
			"lock_timeout": func() (bool, error) { return postgres.RunOnce(t.Context(), hasty, "k", never(t)) },
			"deadline":     func() (bool, error) { return postgres.RunOnce(ctx, pool, "k", never(t)) },
		} {
			if ran, err := wait(); ran || !errors.Is(err, postgres.ErrInProgress) || !isCode(err, "55P03") {
				t.Errorf("%s: got %v, %v, want in progress", name, ran, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var timeout string
	_, err = postgres.RunOnce(t.Context(), hasty, "another", func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), "show lock_timeout").Scan(&timeout)
	})
	if err != nil || timeout != "20ms" {
		t.Errorf("inside, lock_timeout is %s (%v), want the session's own", timeout, err)
	}
}

func never(tb testing.TB) func(pgx.Tx) error {
	tb.Helper()
	return func(pgx.Tx) error { tb.Error("was called"); return errCallback }
}

func TestOnceWhoseAnswerIsLostIsUnknownAndIsNotDoneTwice(t *testing.T) {
	t.Parallel()
	url := database(t)
	k := openLossy(t, variant{mode: pgx.QueryExecModeExec, write: writeExec}, url)
	look := openPool(t, url)
	work := func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), addOne)
		k.losing()
		return err
	}
	ran, err := postgres.RunOnce(t.Context(), k.pool, "k", work)
	var unknown *fencedstore.UnknownOutcomeError
	if ran || !errors.As(err, &unknown) || unknown.Op != "commit" || strings.Contains(err.Error(), "fence 0") {
		t.Fatalf("got %v, %v, want an unknown outcome", ran, err)
	}
	if ran, err = postgres.RunOnce(t.Context(), k.pool, "k", work); ran || err != nil {
		t.Errorf("again: %v, %v, want it to be done already", ran, err)
	}
	if got := value(t, look, "n"); got != "1" {
		t.Errorf("the work was done %s times", got)
	}
}

func TestOnceWithBadArgumentsSendsNothing(t *testing.T) {
	t.Parallel()
	fn := never(t)
	db := unused{t}
	for name, call := range map[string]func() (bool, error){
		"db":  func() (bool, error) { return postgres.RunOnce(t.Context(), nil, "k", fn) },
		"fn":  func() (bool, error) { return postgres.RunOnce(t.Context(), db, "k", nil) },
		"key": func() (bool, error) { return postgres.RunOnce(t.Context(), db, "", fn) },
		"key ": func() (bool, error) {
			return postgres.RunOnce(t.Context(), db, strings.Repeat("k", fencedstore.MaxResource+1), fn)
		},
		"key  ": func() (bool, error) { return postgres.Once(t.Context(), nil, "") },
	} {
		ran, err := call()
		var option *postgres.OptionError
		if ran || !errors.As(err, &option) || option.Name != strings.TrimSpace(name) {
			t.Errorf("%q: got %v, %v", name, ran, err)
		}
	}
	if _, err := postgres.Once(t.Context(), nil, "k"); err == nil {
		t.Error("once without a transaction")
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errCallback)
	if ran, err := postgres.RunOnce(ended, db, "k", fn); ran || !errors.Is(err, errCallback) {
		t.Errorf("ended context: %v, %v", ran, err)
	}
	empty := openPool(t, testenv.Database(t))
	if ran, err := postgres.RunOnce(t.Context(), empty, "k", fn); ran || !errors.Is(err, postgres.ErrSchema) {
		t.Errorf("no schema: %v, %v", ran, err)
	}
}

func TestOnceMustNotBeEndedByItsCallback(t *testing.T) {
	t.Parallel()
	pool := openPool(t, database(t), maxConns(1))
	ran, err := postgres.RunOnce(t.Context(), pool, "k", func(tx pgx.Tx) error { return tx.Rollback(t.Context()) })
	if ran || !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("got %v, %v", ran, err)
	}
	deferred(t, pool)
	ran, err = postgres.RunOnce(t.Context(), pool, "k", func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "insert into child values (1)")
		return err
	})
	if ran || !isCode(err, "23503") || errors.Is(err, fencedstore.ErrUnknownOutcome) {
		t.Errorf("a commit that fails: %v, %v", ran, err)
	}
	if ran, err = postgres.RunOnce(t.Context(), pool, "k", func(pgx.Tx) error { return nil }); !ran || err != nil {
		t.Errorf("after all that: %v, %v, want the first success", ran, err)
	}
}

// A fence keeps older holders out and lets its own repeat; the key keeps the
// repetition out.
func TestOnceUnderAFence(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	f := claimed(t, s, "r", 1)
	for attempt, want := range []bool{true, false} {
		err := s.InTx(t.Context(), f, func(tx pgx.Tx) error {
			first, err := postgres.Once(t.Context(), tx, "invoice 7\x00")
			if err == nil && first != want {
				t.Errorf("attempt %d: first is %v", attempt, first)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var n int
	if err := pool.QueryRow(t.Context(), "select count(*) from fencedstore.once").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d keys are kept (%v)", n, err)
	}
}
