package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
)

// naiveWork asks for the mark in the transaction that writes, and compares in
// the program.
type naiveWork struct{ pool *pgxpool.Pool }

var errNaiveStale = errors.New("stale")

func newNaiveWork(_ testing.TB, pool *pgxpool.Pool) work { return naiveWork{pool} }

func (w naiveWork) claim(ctx context.Context, f fencedstore.Fence) error {
	const query = "insert into naive as n values ($1, $2) on conflict (resource)" +
		" do update set fence_id = excluded.fence_id where n.fence_id <= excluded.fence_id"
	for {
		tag, err := w.pool.Exec(ctx, query, f.Resource, f.ID)
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code == "40001" {
			continue
		}
		if err == nil && tag.RowsAffected() == 0 {
			return errNaiveStale
		}
		return err
	}
}

func (w naiveWork) check(ctx context.Context, tx pgx.Tx, f fencedstore.Fence) error {
	var newest int64
	err := tx.QueryRow(ctx, "select fence_id from naive where resource = $1", f.Resource).Scan(&newest)
	if err == nil && newest != f.ID {
		return errNaiveStale
	}
	return err
}

func (w naiveWork) read(ctx context.Context, f fencedstore.Fence) (value int64, err error) {
	err = pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if err := w.check(ctx, tx, f); err != nil {
			return err
		}
		return tx.QueryRow(ctx, readSQL, f.Resource).Scan(&value)
	})
	return value, err
}

func (w naiveWork) write(ctx context.Context, f fencedstore.Fence, saw, wrote int64) error {
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if err := w.check(ctx, tx, f); err != nil {
			return err
		}
		sometimesPause(ctx)
		b := &pgx.Batch{}
		b.Queue(writeSQL, f.Resource, wrote)
		b.Queue(journalSQL, f.Resource, f.ID, f.Holder, saw, wrote)
		err := tx.SendBatch(ctx, b).Close()
		sometimesPause(ctx)
		return err
	})
}
