package compat_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenced-go/fenced/fencedstore"
	fencedpg "github.com/fenced-go/fenced/fencedstore/postgres"
)

// withdrawPGX needs a store: fencedpg.New(pool, nil).
func withdrawPGX(ctx context.Context, store *fencedpg.Store, f fencedstore.Fence, id, amount int64) error {
	return store.InTx(ctx, f, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE account SET balance = balance - $1 WHERE id = $2", amount, id)
		return err
	})
}

// withdrawByHand begins and ends its transaction itself.
func withdrawByHand(ctx context.Context, db interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}, f fencedstore.Fence, id, amount int64,
) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if err := fencedpg.Guard(ctx, tx, f); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE account SET balance = balance - $1 WHERE id = $2", amount, id)
		return err
	})
}

func payPGX(ctx context.Context, tx pgx.Tx, amount int64) error {
	_, err := tx.Exec(ctx, "UPDATE account SET balance = balance - $1 WHERE id = 7", amount)
	return err
}

// nestPGX is what nest does inside a guarded transaction of pgx.
func nestPGX(ctx context.Context, tx pgx.Tx, amount int64, meanwhile func()) error {
	err := undoTwice(func() error {
		return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return errors.Join(payPGX(ctx, tx, amount), errUndo) })
	})
	if err != nil {
		return err
	}
	meanwhile()
	return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return payPGX(ctx, tx, amount) })
}

func storeWay(s *fencedpg.Store) way {
	return way{
		pay: func(ctx context.Context, f fencedstore.Fence, amount int64) error {
			return withdrawPGX(ctx, s, f, 7, amount)
		},
		nest: func(ctx context.Context, f fencedstore.Fence, amount int64, meanwhile func()) error {
			return s.InTx(ctx, f, func(tx pgx.Tx) error { return nestPGX(ctx, tx, amount, meanwhile) })
		},
		guardInside: func(ctx context.Context, f fencedstore.Fence) error {
			return s.InTx(ctx, f, func(tx pgx.Tx) error {
				return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return fencedpg.Guard(ctx, tx, f) })
			})
		},
	}
}

func pgxPool(tb testing.TB, url string) way {
	tb.Helper()
	return storeWay(newStore(tb, openPool(tb, url), nil))
}

func openConn(tb testing.TB, url string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) })
	return conn
}

func pgxConn(tb testing.TB, url string) way {
	tb.Helper()
	return storeWay(newStore(tb, openConn(tb, url), nil))
}

func pgxByHand(tb testing.TB, url string) way {
	tb.Helper()
	pool := openPool(tb, url)
	return way{
		pay: func(ctx context.Context, f fencedstore.Fence, amount int64) error {
			return withdrawByHand(ctx, pool, f, 7, amount)
		},
		nest: func(ctx context.Context, f fencedstore.Fence, amount int64, meanwhile func()) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				if err := fencedpg.Guard(ctx, tx, f); err != nil {
					return err
				}
				return nestPGX(ctx, tx, amount, meanwhile)
			})
		},
		guardInside: func(ctx context.Context, f fencedstore.Fence) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return fencedpg.Guard(ctx, tx, f) })
			})
		},
	}
}

// COPY is many messages and no batch: it runs inside a guarded transaction.
func TestCopyInsideAGuardedTransaction(t *testing.T) {
	t.Parallel()
	pool := openPool(t, database(t))
	s := newStore(t, pool, nil)
	f := claimed(t, s, 5)
	stale := fencedstore.Fence{Resource: f.Resource, ID: 4, Holder: f.Holder}
	copyIn := func(f fencedstore.Fence, end error) error {
		return s.InTx(t.Context(), f, func(tx pgx.Tx) error {
			rows := pgx.CopyFromSlice(1000, func(i int) ([]any, error) { return []any{int64(7), int64(i)}, nil })
			_, err := tx.CopyFrom(t.Context(), pgx.Identifier{"entry"}, []string{"account", "amount"}, rows)
			return errors.Join(err, end)
		})
	}
	if err := copyIn(stale, nil); !errors.Is(err, fencedstore.ErrStale) {
		t.Errorf("stale: got %v", err)
	}
	if err := copyIn(f, errUndo); !errors.Is(err, errUndo) {
		t.Errorf("undone: got %v", err)
	}
	if err := copyIn(f, nil); err != nil {
		t.Errorf("the holder: %v", err)
	}
	var n int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM entry").Scan(&n); err != nil || n != 1000 {
		t.Errorf("%d rows (%v), want the 1000 that were committed", n, err)
	}
}
