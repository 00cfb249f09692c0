package postgres_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/fencedstore/postgres"
)

// The holders of TestPausedHoldersCannotHarm, whose writes nothing guards but the
// triggers of the tables: they set by hand what a guard would have set.
func TestPausedHoldersCannotHarmProtectedTables(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			got := stress(t, level, &toyLock{repeats: true}, stressTime(t), design{newTriggerWork, 80})
			if got.order != 0 || got.reuse != 0 || got.lost != 0 {
				t.Errorf("the triggers let harm through: %v", got)
			}
		})
	}
}

type triggerWork struct {
	fencedWork
	pool *pgxpool.Pool
}

func newTriggerWork(tb testing.TB, pool *pgxpool.Pool) work {
	tb.Helper()
	for _, table := range []string{"stock", "journal"} {
		if err := postgres.ProtectBy(tb.Context(), pool, table, "resource", "", nil); err != nil {
			tb.Fatal(err)
		}
	}
	return triggerWork{fencedWork{newStore(tb, pool, nil)}, pool}
}

func (w triggerWork) write(ctx context.Context, f fencedstore.Fence, saw, wrote int64) error {
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		sometimesPause(ctx)
		b := &pgx.Batch{}
		b.Queue("select set_config('fencedstore.shown', $1, true)", fmt.Sprintf("\n=%s\n:%d:%x;", f.Resource, f.ID, f.Holder))
		b.Queue(writeSQL, f.Resource, wrote)
		b.Queue(journalSQL, f.Resource, f.ID, f.Holder, saw, wrote)
		err := tx.SendBatch(ctx, b).Close()
		sometimesPause(ctx)
		if refusal := postgres.Refused(f, err); refusal != nil {
			return refusal
		}
		return err
	})
}
