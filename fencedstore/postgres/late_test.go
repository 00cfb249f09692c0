package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

// lateWork guards its transactions by their last statement: what a stale holder
// did is rolled back then.
type lateWork struct {
	fencedWork
	pool *pgxpool.Pool
}

func newLateWork(tb testing.TB, pool *pgxpool.Pool) work {
	tb.Helper()
	return lateWork{fencedWork{newStore(tb, pool, nil)}, pool}
}

func (w lateWork) in(ctx context.Context, f fencedstore.Fence, fn func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		sometimesPause(ctx)
		return postgres.Guard(ctx, tx, f)
	})
}

func (w lateWork) read(ctx context.Context, f fencedstore.Fence) (value int64, err error) {
	err = w.in(ctx, f, func(tx pgx.Tx) error { return tx.QueryRow(ctx, readSQL, f.Resource).Scan(&value) })
	return value, err
}

func (w lateWork) write(ctx context.Context, f fencedstore.Fence, saw, wrote int64) error {
	return w.in(ctx, f, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(writeSQL, f.Resource, wrote)
		b.Queue(journalSQL, f.Resource, f.ID, f.Holder, saw, wrote)
		return tx.SendBatch(ctx, b).Close()
	})
}

// A late guard keeps nobody waiting: the claim comes at once, and the older
// transaction is refused when it wants to commit.
func TestLateGuardDoesNotKeepAClaimWaiting(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			sc := newScene(t)
			tx, err := sc.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), writeFour); err != nil {
				t.Fatal(err)
			}
			sc.claim() // while tx is open
			err = postgres.Guard(t.Context(), tx, sc.old)
			if level == pgx.ReadCommitted {
				sc.isStale(err)
			} else if !isCode(err, "40001") { // the snapshot is older than the claim
				t.Errorf("got %v, want 40001", err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Error(err)
			}
			if got := sc.value("x"); got != 100 {
				t.Errorf("x is %d after a refusal", got)
			}
		})
	}
}
