package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx", for migrations

	"github.com/fenced-go/fenced/fencedstore"
	"github.com/fenced-go/fenced/migrations/migrate"
)

// accounts is how many resources there are: few, so that somebody always waits
// for the one whose holder is paused.
const accounts = 2

// schema is that of an application, but for two things: event is the oracle's,
// and no constraint keeps invoices apart. The fence is for the row that checks
// one by hand.
const schema = `
DROP TABLE IF EXISTS counter, event, invoice;
CREATE TABLE counter (account int PRIMARY KEY, value bigint NOT NULL DEFAULT 0, fence bigint NOT NULL DEFAULT 0);
CREATE TABLE invoice (account int NOT NULL, number bigint NOT NULL);
CREATE TABLE event (seq bigserial PRIMARY KEY, account int NOT NULL, tenure bigint NOT NULL, write boolean NOT NULL);
CREATE INDEX ON event (tenure);
INSERT INTO counter (account) SELECT generate_series(1, %d);`

// readSQL locks the row while it draws its place in the order. The lock ends
// with the statement, so it protects nobody afterwards.
const readSQL = `
WITH c AS (SELECT value FROM counter WHERE account = $1 FOR UPDATE),
     e AS (INSERT INTO event (account, tenure, write) SELECT $1, $2, false FROM c)
SELECT value FROM c`

// errRefused says that the store did not take a write.
var errRefused = errors.New("refused")

// entry is what a worker writes.
type entry struct {
	account int
	tenure  int64 // names the stay of the worker inside the lock
	value   int64 // of the counter, and the invoice's number
}

// read begins the work of a tenure.
func (w *world) read(ctx context.Context, account int, tenure int64) (value int64, err error) {
	err = w.pool.QueryRow(ctx, readSQL, account, tenure).Scan(&value)
	return value, err
}

// record is the application's work inside whatever transaction.
func record(ctx context.Context, tx pgx.Tx, e entry) error {
	var b pgx.Batch
	b.Queue("UPDATE counter SET value = $2 WHERE account = $1", e.account, e.value)
	b.Queue("INSERT INTO event (account, tenure, write) VALUES ($1, $2, true)", e.account, e.tenure)
	b.Queue("INSERT INTO invoice (account, number) VALUES ($1, $2)", e.account, e.value)
	return tx.SendBatch(ctx, &b).Close()
}

func writePlain(ctx context.Context, w *world, _ *tenure, e entry) error {
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error { return record(ctx, tx, e) })
}

// writeByHand is what READMEs ask for: the resource takes a write only if its
// fence is not below the highest one that it has processed.
func writeByHand(ctx context.Context, w *world, t *tenure, e entry) error {
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "UPDATE counter SET fence = $2 WHERE account = $1 AND fence <= $2", e.account, t.fence.ID)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errRefused
		}
		return record(ctx, tx, e)
	})
}

func writeGuarded(ctx context.Context, w *world, t *tenure, e entry) error {
	err := w.store.InTx(ctx, t.fence, func(tx pgx.Tx) error { return record(ctx, tx, e) })
	for _, refusal := range []error{fencedstore.ErrStale, fencedstore.ErrFenceReused, fencedstore.ErrNotClaimed} {
		if errors.Is(err, refusal) {
			return fmt.Errorf("%w: %w", errRefused, err)
		}
	}
	return err
}

// prepare makes the tables, empty, and those of the guard.
func prepare(ctx context.Context, url string) (err error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := migrate.Up(ctx, db); err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, fmt.Sprintf(schema, accounts))
	return err
}

// verdict is what the oracle finds.
type verdict struct{ Committed, Lost, Stale, Duplicates int }

// verdictSQL counts a write as stale if another tenure has read the account
// between this tenure's own read and the write.
const verdictSQL = `
SELECT (SELECT count(*) FROM event WHERE write),
       (SELECT count(*) FROM event WHERE write) - (SELECT sum(value) FROM counter),
       (SELECT count(*) FROM event w JOIN event own ON own.tenure = w.tenure AND NOT own.write
         WHERE w.write AND EXISTS (SELECT FROM event r WHERE NOT r.write AND r.account = w.account
                                      AND r.seq > own.seq AND r.seq < w.seq)),
       (SELECT count(*) - count(DISTINCT (account, number)) FROM invoice)`

func judge(ctx context.Context, url string) (v verdict, err error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.QueryRowContext(ctx, verdictSQL).Scan(&v.Committed, &v.Lost, &v.Stale, &v.Duplicates)
	return v, err
}
