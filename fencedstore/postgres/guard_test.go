package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

func TestGuardTellsWhyItRefuses(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	db := openSQL(t, pool.Config().ConnString())
	claimed(t, s, "r", 2)
	for want, f := range map[error]fencedstore.Fence{
		fencedstore.ErrStale:        fence("r", 1),
		fencedstore.ErrFenceReused:  fence("r", 2),
		fencedstore.ErrNotClaimed:   fence("r", 3),
		fencedstore.ErrInvalidFence: {},
	} {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sqlTx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{
			"Guard":    postgres.Guard(t.Context(), tx, f),
			"GuardSQL": postgres.GuardSQL(t.Context(), sqlTx, f),
		} {
			var pg *pgconn.PgError
			if !errors.Is(err, want) || errors.As(err, &pg) != (f.ID > 0) {
				t.Errorf("%s: got %v, want %v", name, err, want)
			}
		}
		_, _ = tx.Rollback(t.Context()), sqlTx.Rollback()
	}
}

func TestGuardOfAnEndedTransactionFails(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	f := claimed(t, s, "r", 1)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var noSQL *sql.Tx
	for name, err := range map[string]error{
		"ended": postgres.Guard(t.Context(), tx, f), "nil": postgres.Guard(t.Context(), nil, f), "nil SQL": postgres.GuardSQL(t.Context(), noSQL, f),
	} {
		if err == nil {
			t.Errorf("%s: a guard without a transaction", name)
		}
	}
}

func TestOneTransactionUnderTwoGuards(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	f, g := claimed(t, s, "a", 7), claimed(t, s, "b", 3)
	both := func(tx pgx.Tx) error {
		if err := postgres.Guard(t.Context(), tx, g); err != nil {
			return err
		}
		return put(t.Context(), tx, "k")
	}
	if err := s.InTx(t.Context(), f, both); err != nil || value(t, pool, "k") == "" {
		t.Fatal(err)
	}
	claimed(t, s, "b", 4)
	var stale *fencedstore.StaleError
	if err := s.InTx(t.Context(), f, both); !errors.As(err, &stale) || stale.Fence != g || stale.Newest != 4 {
		t.Errorf("got %v, want the second fence to be stale", err)
	}
}

// A user's own column must be wide enough for a fence. The server says so
// before anything is written.
func TestIntegerColumnIsTooNarrowForAFence(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	if _, err := pool.Exec(t.Context(), "create table narrow (id int primary key, fence_id integer)"); err != nil {
		t.Fatal(err)
	}
	f := claimed(t, s, "r", 1<<31)
	for _, query := range []string{
		"insert into narrow values (1, $1)",
		"insert into narrow values (1, $1::bigint)",
	} {
		_, err := s.Exec(t.Context(), f, query, f.ID)
		if err == nil || errors.Is(err, fencedstore.ErrUnknownOutcome) {
			t.Errorf("%s: got %v, want an error about the column", query, err)
		}
	}
	var n int
	if err := pool.QueryRow(t.Context(), "select count(*) from narrow").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows were written (%v)", n, err)
	}
}

// A guard inside a savepoint would end with ROLLBACK TO, and the transaction
// would write on without it: it is refused, and one outside stays.
func TestGuardInsideASavepointIsRefused(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	f := claimed(t, s, "r", 1)
	db := openSQL(t, pool.Config().ConnString())
	tx, nested := nestedTx(t, pool)
	sqlTx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sqlTx.Rollback() }()
	if _, err := sqlTx.ExecContext(t.Context(), "savepoint mine"); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"Guard": postgres.Guard(t.Context(), nested, f), "GuardSQL": postgres.GuardSQL(t.Context(), sqlTx, f),
	} {
		var pg *pgconn.PgError
		if !errors.Is(err, postgres.ErrSavepoint) || !errors.As(err, &pg) || !strings.Contains(err.Error(), `fence 1 on "r"`) {
			t.Errorf("%s: got %v, want ErrSavepoint", name, err)
		}
	}
	// rolling back to a savepoint leaves it in place: still inside
	if err := nested.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Guard(t.Context(), tx, f); !errors.Is(err, postgres.ErrSavepoint) {
		t.Errorf("after the savepoint was rolled back: got %v, want ErrSavepoint", err)
	}
}

func nestedTx(tb testing.TB, pool *pgxpool.Pool) (outer, inner pgx.Tx) {
	tb.Helper()
	outer, err := pool.Begin(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = outer.Rollback(context.WithoutCancel(tb.Context())) })
	inner, err = outer.Begin(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return outer, inner
}

func TestGuardOutsideASavepointOutlivesIt(t *testing.T) {
	t.Parallel()
	s, pool := setUp(t)
	hasty := newStore(t, pool, &postgres.Options{LockTimeout: time.Millisecond})
	f := claimed(t, s, "r", 1)
	tx := stuck(t, pool, f)
	nested, err := tx.Begin(t.Context())
	if err := errors.Join(err, nested.Rollback(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := hasty.Claim(t.Context(), fence("r", 2)); !errors.Is(err, postgres.ErrBusy) {
		t.Errorf("claim after a savepoint was rolled back: %v, want busy", err)
	}
}
