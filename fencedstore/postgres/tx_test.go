package postgres_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

type tag = pgconn.CommandTag

var errCallback = errors.New("the callback's own")

func put(ctx context.Context, tx pgx.Tx, key string) error {
	_, err := tx.Exec(ctx, upsert, []byte(key), []byte("v"))
	return err
}

func TestInTxRollsBackUnlessTheCallbackReturnsNil(t *testing.T) {
	t.Parallel()
	pool := openPool(t, database(t), maxConns(1))
	s := newStore(t, pool, nil)
	f := claimed(t, s, "r", 1)
	for name, fn := range map[string]func(tx pgx.Tx) error{
		"error":  func(pgx.Tx) error { return errCallback },
		"panic":  func(pgx.Tx) error { panic(errCallback) },
		"Goexit": func(pgx.Tx) error { runtime.Goexit(); return nil },
	} {
		done := make(chan any, 1)
		go func() {
			var err error
			defer func() {
				if p := recover(); p != nil {
					done <- p
				} else {
					done <- err
				}
			}()
			err = s.InTx(t.Context(), f, func(tx pgx.Tx) error {
				if err := put(t.Context(), tx, name); err != nil {
					return err
				}
				return fn(tx)
			})
		}()
		if got := <-done; name != "Goexit" && got != any(errCallback) {
			t.Errorf("%s: got %v", name, got)
		}
		if got := value(t, pool, name); got != "" {
			t.Errorf("%s: the write stayed", name)
		}
	}
	if n := pool.Stat().NewConnsCount(); n != 1 {
		t.Errorf("%d connections were made, want the first to be used throughout", n)
	}
}

func TestContextThatEndsInTheCallbackCommitsNothing(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	f := claimed(t, s, "r", 1)
	lost := errors.New("the lock was lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := s.InTx(ctx, f, func(tx pgx.Tx) error {
		err := put(ctx, tx, "k")
		cancel(lost)
		return err // nil: it did not notice
	})
	if !errors.Is(err, lost) || !errors.Is(err, context.Canceled) || errors.Is(err, fencedstore.ErrUnknownOutcome) {
		t.Errorf("got %v, want the context's error and its cause", err)
	}
	if got := value(t, pool, "k"); got != "" {
		t.Error("the write was committed")
	}
}

func TestSwallowedErrorIsNoCommit(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	f := claimed(t, s, "r", 1)
	err := s.InTx(t.Context(), f, func(tx pgx.Tx) error {
		err := put(t.Context(), tx, "k")
		_, _ = tx.Exec(t.Context(), "select 1/0")
		return err
	})
	if !errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, fencedstore.ErrUnknownOutcome) {
		t.Errorf("got %v, want ErrTxCommitRollback", err)
	}
	if value(t, pool, "k") != "" {
		t.Error("the write was committed")
	}
}

func TestCallbackMustNotEndTheTransaction(t *testing.T) {
	t.Parallel()
	s, _ := setUp(t)
	f := claimed(t, s, "r", 1)
	ctx := t.Context()
	for name, end := range map[string]func(tx pgx.Tx) error{
		"Commit":   func(tx pgx.Tx) error { return tx.Commit(ctx) },
		"Rollback": func(tx pgx.Tx) error { return tx.Rollback(ctx) },
		"COMMIT":   func(tx pgx.Tx) error { _, err := tx.Exec(ctx, "commit"); return err },
	} {
		if err := s.InTx(ctx, f, end); !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("%s: got %v, want ErrTxClosed", name, err)
		}
	}
}

func TestFailingCommitIsReported(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	f := claimed(t, s, "r", 1)
	deferred(t, pool)
	err := s.InTx(t.Context(), f, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "insert into child values (1)")
		return err
	})
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "23503" || errors.Is(err, fencedstore.ErrUnknownOutcome) {
		t.Errorf("got %v, want the constraint's error", err)
	}
}

// deferred makes a table whose constraint is checked at commit.
func deferred(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	_, err := pool.Exec(tb.Context(), "create table parent (id int primary key);"+
		"create table child (id int references parent deferrable initially deferred)")
	if err != nil {
		tb.Fatal(err)
	}
}

func TestSavepointsKeepTheGuard(t *testing.T) {
	t.Parallel()
	_, pool := setUp(t)
	s := newStore(t, pool, &postgres.Options{LockTimeout: time.Millisecond})
	f := claimed(t, s, "r", 1)
	ctx := t.Context()
	err := s.InTx(ctx, f, func(tx pgx.Tx) error {
		if err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return put(ctx, tx, "kept") }); err != nil {
			return err
		}
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_ = put(ctx, tx, "undone")
			return errCallback
		})
		if !errors.Is(err, errCallback) {
			return err
		}
		if err := s.Claim(ctx, fence("r", 2)); !errors.Is(err, postgres.ErrBusy) {
			t.Errorf("claim after a savepoint was rolled back: %v, want busy", err)
		}
		return nil
	})
	if err != nil || value(t, pool, "kept") == "" || value(t, pool, "undone") != "" {
		t.Errorf("got %v, %q, %q", err, value(t, pool, "kept"), value(t, pool, "undone"))
	}
}

// The successor's claim gets through while the holder is still paused: the
// server ends the transaction that it left open.
func TestPausedHolderIsEndedByTheServer(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	f := claimed(t, s, "r", 1)
	patient := newStore(t, pool, &postgres.Options{LockTimeout: within})
	hasty := newStore(t, pool, &postgres.Options{IdleTimeout: 30 * time.Millisecond})
	lease, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var successor error
	err := hasty.InTx(lease, f, func(tx pgx.Tx) error {
		err := put(t.Context(), tx, "k")
		successor = patient.Claim(t.Context(), fence("r", 2))
		return err
	})
	if successor != nil {
		t.Errorf("the successor got %v", successor)
	}
	if err == nil || errors.Is(err, fencedstore.ErrUnknownOutcome) {
		t.Errorf("the paused holder got %v, want a plain failure", err)
	}
	if value(t, pool, "k") != "" {
		t.Error("the paused holder's write was committed")
	}
}

// The guard in SQL, all in one batch, so that nothing is idle for long enough to
// be ended.
func TestGuardLowersTheIdleTimeoutAndNeverRaisesIt(t *testing.T) {
	t.Parallel()
	pool := openPool(t, database(t), maxConns(1))
	s := newStore(t, pool, nil)
	f := claimed(t, s, "r", 1)
	for _, c := range []struct {
		session string
		left    any // milliseconds
		want    string
	}{
		{"0", 1500, "1500ms"},
		{"0", 30_000, "30s"},
		{"0", nil, "0"},
		{"0", 0, "1ms"}, // and not for ever
		{"0", -5, "1ms"},
		{"0", int64(1) << 40, "2147483647ms"},
		{"7ms", 8, "7ms"},
		{"7ms", nil, "7ms"},
		{"29999ms", 30_000, "29999ms"},
		{"90s", 30_000, "30s"},
		{"1min", 30_000, "30s"},
		{"2h", 30_000, "30s"},
		{"1d", 30_000, "30s"},
		{"1d", 2 * 86_400_000, "1d"},
	} {
		for _, style := range []string{"postgres", "postgres_verbose", "sql_standard", "iso_8601"} {
			b := &pgx.Batch{}
			b.Queue("set local intervalstyle = " + style)
			b.Queue("select set_config('idle_in_transaction_session_timeout', $1, true)", c.session)
			b.Queue("select fencedstore.guard($1::text, $2::int8, $3::bytea, $4::int8)", "r", f.ID, []byte(f.Holder), c.left)
			var got string
			b.Queue("show idle_in_transaction_session_timeout").QueryRow(func(row pgx.Row) error { return row.Scan(&got) })
			if err := pool.SendBatch(t.Context(), b).Close(); err != nil || got != c.want {
				t.Errorf("session %s, left %v, %s: got %s, want %s (%v)", c.session, c.left, style, got, c.want, err)
			}
		}
	}
}

func TestDeadlineBoundsTheIdleTimeout(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	f := claimed(t, s, "r", 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // below the default of 30
	defer cancel()
	const query = "select extract(epoch from current_setting('idle_in_transaction_session_timeout')::interval)::float8"
	check := func(what string) func(tx pgx.Tx) error {
		return func(tx pgx.Tx) error {
			var got float64
			err := tx.QueryRow(ctx, query).Scan(&got)
			if got <= 0 || got > 20 {
				t.Errorf("%s: got %vs, want what the context had left", what, got)
			}
			return err
		}
	}
	if err := s.InTx(ctx, f, check("InTx")); err != nil {
		t.Error(err)
	}
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := postgres.Guard(ctx, tx, f); err != nil {
			return err
		}
		return check("Guard")(tx)
	})
	if err != nil {
		t.Error(err)
	}
}

// Each way to end leaves the server session as it was.
func TestSettingsEndWithTheTransaction(t *testing.T) {
	t.Parallel()
	pool := openPool(t, database(t), maxConns(1), setting("synchronous_commit", "off"))
	s := newStore(t, pool, nil)
	f, stale := claimed(t, s, "r", 2), fence("r", 1)
	settings := func() (pid uint32, all string) {
		err := pool.QueryRow(t.Context(), "select pg_backend_pid(), string_agg(name || '=' || setting, ' ' order by name)"+
			" from pg_settings where source = 'session' or name ~ 'timeout|synchronous_commit|fenced'").Scan(&pid, &all)
		if err != nil {
			t.Fatal(err)
		}
		return pid, all
	}
	pid, before := settings()
	ctx, cancel := context.WithCancel(t.Context())
	for name, call := range map[string]func(){
		"claim":       func() { _ = s.Claim(t.Context(), f) },
		"stale claim": func() { _ = s.Claim(t.Context(), stale) },
		"commit":      func() { _ = s.InTx(t.Context(), f, func(pgx.Tx) error { return nil }) },
		"stale":       func() { _ = s.InTx(t.Context(), stale, func(pgx.Tx) error { return nil }) },
		"rollback":    func() { _ = s.InTx(t.Context(), f, func(pgx.Tx) error { return errCallback }) },
		"failed commit": func() {
			_ = s.InTx(t.Context(), f, func(tx pgx.Tx) error { _, _ = tx.Exec(t.Context(), "x"); return nil })
		},
		"batch":     func() { _ = s.SendBatch(t.Context(), f, &pgx.Batch{}) },
		"cancelled": func() { _ = s.InTx(ctx, f, func(pgx.Tx) error { cancel(); return nil }) },
		"panic": func() {
			defer func() { _ = recover() }()
			_ = s.InTx(t.Context(), f, func(pgx.Tx) error { panic("x") })
		},
	} {
		call()
		if again, after := settings(); again != pid || after != before {
			t.Errorf("after %s: session %d has %s; before, %d had %s", name, again, after, pid, before)
		}
	}
}

// A guard at repeatable read waits for a claim and then sees the world before
// it. It must be told that it is stale, not that it should try again.
func TestGuardWithAnOldSnapshotIsToldTheVerdict(t *testing.T) {
	t.Parallel()
	url := database(t)
	for _, level := range []string{"repeatable read", "serializable"} {
		pool := openPool(t, url, setting("default_transaction_isolation", level))
		s := newStore(t, pool, nil)
		for name, call := range map[string]func(f fencedstore.Fence) error{
			"InTx": func(f fencedstore.Fence) error { return s.InTx(t.Context(), f, nil) },
			"Exec": func(f fencedstore.Fence) error { _, err := s.Exec(t.Context(), f, "select"); return err },
		} {
			f := claimed(t, s, level+name, 1)
			done := make(chan error, 1)
			err := pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "select fencedstore.claim($1::text, 2, 'x', 1000)", f.Resource)
				go func() { done <- call(f) }()
				untilWaiting(t, pool)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			var stale *fencedstore.StaleError
			if err := <-done; !errors.As(err, &stale) || stale.Newest != 2 {
				t.Errorf("%s at %s: got %v, want stale by 2", name, level, err)
			}
		}
	}
}

// The caller's own serialization failures are not repeated: its code has run.
func TestSerializationFailureOfTheCallbackIsReturned(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	f := claimed(t, s, "r", 1)
	runs := 0
	err := s.InTxOptions(t.Context(), f, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		runs++
		if _, err := tx.Exec(t.Context(), "select count(*) from kv"); err != nil {
			return err
		}
		if _, err := pool.Exec(t.Context(), upsert, []byte("k"), []byte("other")); err != nil {
			return err
		}
		return put(t.Context(), tx, "k")
	})
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "40001" || runs != 1 {
		t.Errorf("got %v after %d runs, want 40001 after one", err, runs)
	}
}
