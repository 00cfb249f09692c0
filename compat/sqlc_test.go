package compat_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/compat/sqlc/pgxdb"
	"github.com/fenced-go/fenced/compat/sqlc/stddb"
	"github.com/fenced-go/fenced/fencedstore"
	fencedpg "github.com/fenced-go/fenced/fencedstore/postgres"
)

// withdrawRepo guards each query by the fence in its context:
// q := pgxdb.New(store.Repo()).
func withdrawRepo(ctx context.Context, q *pgxdb.Queries, f fencedstore.Fence, id, amount int64) error {
	ctx = fencedstore.NewContext(ctx, f) // a lock's context has it already
	_, err := q.Withdraw(ctx, pgxdb.WithdrawParams{ID: id, Amount: amount})
	return err
}

// withdrawQueries guards several queries together.
func withdrawQueries(ctx context.Context, store *fencedpg.Store, q *pgxdb.Queries, f fencedstore.Fence, id, amount int64) error {
	return store.InTx(ctx, f, func(tx pgx.Tx) error {
		_, err := q.WithTx(tx).Withdraw(ctx, pgxdb.WithdrawParams{ID: id, Amount: amount})
		return err
	})
}

// withdrawStandard is the same with code for database/sql.
func withdrawStandard(ctx context.Context, db *sql.DB, q *stddb.Queries, f fencedstore.Fence, id, amount int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := fencedpg.GuardSQL(ctx, tx, f); err != nil {
		return err
	}
	if _, err := q.WithTx(tx).Withdraw(ctx, stddb.WithdrawParams{ID: id, Amount: amount}); err != nil {
		return err
	}
	return tx.Commit()
}

func sqlcRepo(tb testing.TB, url string) way {
	tb.Helper()
	q := pgxdb.New(newStore(tb, openPool(tb, url), nil).Repo())
	return way{pay: func(ctx context.Context, f fencedstore.Fence, amount int64) error {
		return withdrawRepo(ctx, q, f, 7, amount)
	}}
}

func sqlcInTx(tb testing.TB, url string) way {
	tb.Helper()
	pool := openPool(tb, url)
	s, q := newStore(tb, pool, nil), pgxdb.New(pool)
	w := storeWay(s)
	w.pay = func(ctx context.Context, f fencedstore.Fence, amount int64) error {
		return withdrawQueries(ctx, s, q, f, 7, amount)
	}
	return w
}

func sqlcStandard(db *sql.DB) way {
	q := stddb.New(db)
	w := standard(db)
	w.pay = func(ctx context.Context, f fencedstore.Fence, amount int64) error {
		return withdrawStandard(ctx, db, q, f, 7, amount)
	}
	return w
}

// Every kind of query that sqlc generates for pgx, through the guarded DBTX.
func TestGeneratedQueriesAreGuarded(t *testing.T) {
	t.Parallel()
	pool := openPool(t, database(t))
	s := newStore(t, pool, nil)
	f := claimed(t, s, 5)
	q := pgxdb.New(s.Repo())
	all := func(ctx context.Context) map[string]error {
		_, one := q.Balance(ctx, 7)
		_, execRows := q.Withdraw(ctx, pgxdb.WithdrawParams{ID: 7, Amount: 1})
		_, copied := q.AddEntries(ctx, []pgxdb.AddEntriesParams{{Account: 7, Amount: 1}, {Account: 7, Amount: 2}})
		var batch error
		q.WithdrawEach(ctx, []pgxdb.WithdrawEachParams{{ID: 7, Amount: 1}, {ID: 7, Amount: 2}}).Exec(func(_ int, err error) {
			batch = errors.Join(batch, err)
		})
		return map[string]error{":one": one, ":execrows": execRows, ":copyfrom": copied, ":batchexec": batch}
	}
	for name, err := range all(fencedstore.NewContext(t.Context(), f)) {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	claimed(t, s, 6)
	for name, err := range all(fencedstore.NewContext(t.Context(), f)) {
		if !errors.Is(err, fencedstore.ErrStale) {
			t.Errorf("%s with a stale fence: %v", name, err)
		}
	}
	for name, err := range all(t.Context()) {
		if !errors.Is(err, fencedstore.ErrNoFence) {
			t.Errorf("%s without a fence: %v", name, err)
		}
	}
	if got := (env{pool: pool}).balance(t); got != 96 {
		t.Errorf("got a balance of %d, want 96: once 1 and the batch of 1 and 2", got)
	}
}
